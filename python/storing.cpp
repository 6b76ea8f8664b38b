#include "dlpipe/python/storing.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/log.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/python/answers.h"
#include "dlpipe/python/errors.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

using ingest::IngestOptions;

template <class T>
T typed(const char* name, nb::handle value, const char* type) {
  T typed;
  if (nb::try_cast(value, typed, false)) return typed;
  throw nb::type_error(concat(name, "=", nb::repr(value).c_str(), "; give ", type).c_str());
}

template <auto kMember, auto kParse>
void set_name(IngestOptions& options, const char* name, nb::handle value) {
  options.*kMember = value_or_throw(kParse(typed<std::string>(name, value, "a text")));
}
template <auto kMember>
void set_switch(IngestOptions& options, const char* name, nb::handle value) {
  options.*kMember = typed<bool>(name, value, "True or False");
}
template <auto kMember, class T>
void set_number(IngestOptions& options, const char* name, nb::handle value) {
  options.*kMember = typed<T>(name, value, "an int");
}
void set_map_bytes(IngestOptions& options, const char* name, nb::handle value) {
  options.map_bytes = bytes_option(name, value);
}

void set_background(IngestOptions& options, const char* name, nb::handle value) {
  options.background = value_or_throw(ingest::parse_background(typed<std::string>(name, value, "a text")));
}

struct StoringOption {
  const char* name;
  void (*set)(IngestOptions& options, const char* name, nb::handle value);
};
constexpr std::array kOptions = {
    StoringOption{"on_error", set_name<&IngestOptions::on_error, ingest::parse_on_error>},
    StoringOption{"store", set_name<&IngestOptions::store, ingest::parse_store>},
    StoringOption{"jpeg", set_name<&IngestOptions::jpeg, ingest::parse_jpeg_layout>},
    StoringOption{"trust", set_switch<&IngestOptions::trust>},
    StoringOption{"resize_max", set_number<&IngestOptions::resize_max, int>},
    StoringOption{"background", set_background},
    StoringOption{"quality", set_number<&IngestOptions::quality, int>},
    StoringOption{"zstd", set_switch<&IngestOptions::zstd>},
    StoringOption{"threads", set_number<&IngestOptions::jobs, int>},
    StoringOption{"map_size", set_map_bytes},
    StoringOption{"max_pixels", set_number<&IngestOptions::max_pixels, int64_t>},
};

}  // namespace

uint64_t bytes_option(const char* name, nb::handle value) {
  uint64_t bytes = 0;
  if (nb::try_cast(value, bytes, false)) return bytes;
  std::string text;
  if (nb::try_cast(value, text) && parse_bytes(text, &bytes)) return bytes;
  refuse("ingest", name, " ", nb::repr(value).c_str(),
         "; give bytes as a number, or a text with its unit, as '512MiB'");
}

void set_storing_options(const nb::dict& given, IngestOptions& options) {
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    const auto* option = std::find_if(kOptions.begin(), kOptions.end(),
                                      [&](const StoringOption& one) { return one.name == name; });
    if (option == kOptions.end()) throw nb::type_error(name.c_str());  // storing.py has looked
    option->set(options, option->name, value);
  }
}

nb::any answer_of(const ingest::IngestReport& report) {
  if (const std::string skipped = ingest::skipped_text(report); !skipped.empty()) {
    log(LogLevel::kWarning, concat("[ingest] ", skipped));
    pass_log_on();
  }
  return from_json(ingest::to_json(report));
}

}  // namespace dlpipe::python
