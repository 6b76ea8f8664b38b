// The module dlpipe._dlpipe: what the package's Python files build on. Nothing here is for users.
#include <nanobind/nanobind.h>

#include "dlpipe/python/arrays.h"
#include "dlpipe/python/errors.h"
#include "dlpipe/python/loader.h"
#include "dlpipe/python/subjects.h"
#include "dlpipe/python/waiting.h"

NB_MODULE(_dlpipe, module) {
  nanobind::set_leak_warnings(false);  // programs end with batches in their hands, and that is fine
  module.doc() = "The C++ side of dlpipe; import dlpipe instead.";
  module.attr("version") = DLPIPE_VERSION;
  dlpipe::python::bind_errors(module);
  dlpipe::python::bind_waiting(module);
  dlpipe::python::bind_arrays(module);
  dlpipe::python::bind_loader(module);
  dlpipe::python::bind_augmentation(module);
  dlpipe::python::bind_dataset(module);
  dlpipe::python::bind_ingest(module);
  dlpipe::python::bind_kernels(module);
  dlpipe::python::bind_train(module);
  dlpipe::python::bind_writer(module);
}
