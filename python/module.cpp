// The module dlpipe._dlpipe: what the package's Python files build on. Nothing here is for users.
#include <nanobind/nanobind.h>

#include "dlpipe/python/errors.h"
#include "dlpipe/python/loader.h"

NB_MODULE(_dlpipe, module) {
  module.doc() = "The C++ side of dlpipe; import dlpipe instead.";
  module.attr("version") = DLPIPE_VERSION;
  dlpipe::python::bind_errors(module);
  dlpipe::python::bind_loader(module);
}
