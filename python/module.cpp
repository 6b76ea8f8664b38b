// The module dlpipe._dlpipe, on which the package's Python files build. Not for users.
#include "python/module.h"

#include "dlpipe/codec.h"
#include "python/calls.h"
#include "python/values.h"

NB_MODULE(_dlpipe, module) {
  nanobind::set_leak_warnings(false);  // programs may end while they hold batches
  module.doc() = "The C++ side of dlpipe; import dlpipe instead.";
  module.attr("version") = DLPIPE_VERSION;
  module.attr("max_pixels") = dlpipe::data::DecodeLimits().max_pixels;
  dlpipe::python::bind_calls(module);
  dlpipe::python::bind_arrays(module);
  dlpipe::python::bind_capture(module);
  dlpipe::python::bind_loader(module);
  dlpipe::python::bind_dataset(module);
  dlpipe::python::bind_ingest(module);
  dlpipe::python::bind_kernels(module);
  dlpipe::python::bind_train(module);
}
