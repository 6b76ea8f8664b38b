// The loader as Python sees it: a feed of the pipeline, whose batches are tuples of arrays.
#pragma once

#include <nanobind/nanobind.h>

#include "dlpipe/augment/op.h"

namespace dlpipe::python {

void bind_loader(nanobind::module_& module);
void bind_augmentation(nanobind::module_& module);

/// dlpipe's own ops and those that were added from Python. Stays valid when more are added.
const augment::OpRegistry& known_ops();

}  // namespace dlpipe::python
