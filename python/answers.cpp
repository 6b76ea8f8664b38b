#include "dlpipe/python/answers.h"

#include "dlpipe/python/errors.h"
#include "dlpipe/python/waiting.h"

namespace nb = nanobind;

namespace dlpipe::python {

nb::any from_json(std::string_view text) {
  const PythonCall call;
  return nb::borrow<nb::any>(nb::module_::import_("json").attr("loads")(to_text(text)));
}

nb::any from_json_lines(const std::vector<std::string>& lines) {
  std::string text = "[";
  for (const std::string& line : lines) text += (text.size() > 1 ? "," : "") + line;
  return from_json(text + "]");
}

}  // namespace dlpipe::python
