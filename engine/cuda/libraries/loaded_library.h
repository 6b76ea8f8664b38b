// A shared library that is loaded when it is first needed and then stays: a program that trains on the CPU
// carries none of CUDA's, and one that finds none says so. Internal to engine/cuda.
#pragma once

#include <initializer_list>
#include <type_traits>

#include "dlpipe/base/error.h"

namespace dlpipe::engine::cuda {

class LoadedLibrary {
 public:
  /// The first of `names` that the dynamic loader finds.
  explicit LoadedLibrary(std::initializer_list<const char*> names);

  /// `to` becomes the function of that name; null where the library or the function isn't there.
  template <class Function>
  void find(const char* name, Function& to) {
    to = reinterpret_cast<Function>(symbol(name));
  }
  /// kUnsupported with what the loader said, or with the first function that was missing.
  const Status& status() const { return status_; }

 private:
  void* symbol(const char* name);

  void* library_ = nullptr;
  const char* name_ = "";
  Status status_;
};

}  // namespace dlpipe::engine::cuda
