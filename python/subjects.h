// What each subject's source file adds to the module dlpipe._dlpipe.
#pragma once

#include <nanobind/nanobind.h>

namespace dlpipe::python {

void bind_dataset(nanobind::module_& module);
void bind_ingest(nanobind::module_& module);
void bind_kernels(nanobind::module_& module);
void bind_train(nanobind::module_& module);
void bind_writer(nanobind::module_& module);

}  // namespace dlpipe::python
