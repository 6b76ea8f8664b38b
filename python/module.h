// Functions with which each source file adds its bindings to the module dlpipe._dlpipe, and the ops that they share.
#pragma once

#include <nanobind/nanobind.h>

#include "dlpipe/augment_op.h"

namespace dlpipe::python {

void bind_capture(nanobind::module_& module);
void bind_dataset(nanobind::module_& module);
void bind_ingest(nanobind::module_& module);
void bind_kernels(nanobind::module_& module);
void bind_loader(nanobind::module_& module);
void bind_train(nanobind::module_& module);

/// dlpipe's own ops and those that Python added. The reference stays valid when more are added.
const augment::OpRegistry& known_ops();

}  // namespace dlpipe::python
