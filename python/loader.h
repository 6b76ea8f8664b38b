// The loader as Python sees it: a feed of the pipeline, whose batches are tuples of arrays.
#pragma once

#include <nanobind/nanobind.h>

namespace dlpipe::python {

void bind_loader(nanobind::module_& module);

}  // namespace dlpipe::python
