// Functions of Python's world as augmentations: compiled ones, which run without the interpreter lock.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/augment/chain.h"
#include "dlpipe/augment/function_op.h"
#include "dlpipe/python/errors.h"
#include "dlpipe/python/loader.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

// A loader keeps the registry that it was opened with: another one takes its place where an op is added.
const augment::OpRegistry* registry = nullptr;

void add_augmentation(const std::string& name, uintptr_t address, const std::string& code,
                      const std::vector<std::pair<std::string, double>>& parameters,
                      const std::string& help) {
  auto extended = std::make_unique<augment::OpRegistry>(known_ops());
  throw_if_error(augment::add_function_op({.name = name,
                                           .help = help,
                                           .function = reinterpret_cast<augment::PixelFunction>(address),
                                           .code = code,
                                           .parameters = parameters},
                                          *extended));
  registry = extended.release();
}

/// The (height, width) that a chain makes of such an image; 0: it isn't known. Throws what the chain is refused for.
std::pair<int, int> augment_size(const std::string& expression, std::pair<int, int> image) {
  const augment::Chain chain = value_or_throw(augment::Chain::parse(expression, known_ops()));
  const auto size = chain.output({.width = image.second, .height = image.first});
  return size.ok() ? std::pair(size->height, size->width) : std::pair(0, 0);
}

}  // namespace

const augment::OpRegistry& known_ops() {
  return registry != nullptr ? *registry : augment::OpRegistry::builtin();
}

void bind_augmentation(nb::module_& module) {
  module.def("add_augmentation", add_augmentation);
  module.def("augment_size", augment_size);
}

}  // namespace dlpipe::python
