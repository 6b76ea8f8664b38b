// A shared library that is loaded by name when somebody asks for it; it stays loaded. Internal to engine/collective: engine/cuda has
// its like for what a device computes, and this folder includes base alone.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

#include "dlpipe/base/text.h"

namespace dlpipe::engine {

class LoadedLibrary {
 public:
  /// The first of `names` that there is. `what` it is and what to do where there is none, for messages. `visibility`: RTLD_LOCAL,
  /// or RTLD_GLOBAL where its own plugins look for its symbols.
  LoadedLibrary(const char* what, std::initializer_list<const char*> names, int visibility,
                const char* advice)
      : what_(what) {
    std::string reasons;
    for (const char* name : names) {
      name_ = name;
      library_ = dlopen(name, RTLD_NOW | visibility);
      if (library_ != nullptr) return;
      reasons +=
          concat(reasons.empty() ? "" : "; ", dlerror());  // NOLINT(concurrency-mt-unsafe): this thread's
    }
    status_ = Status(ErrorCode::kUnsupported, concat("[ranks] ", what, ": ", reasons, advice));
  }

  /// A function, or an object, as a pointer of the type of `to`; null where there is none, which status() then says.
  template <class Pointer>
  void find(const char* name, Pointer& to) {
    to = nullptr;
    if (!status_.ok()) return;
    to = reinterpret_cast<Pointer>(dlsym(library_, name));
    if (to == nullptr)
      status_ = Status(ErrorCode::kUnsupported, concat("[ranks] ", what_, ": ", name_, " has no ", name));
  }
  const Status& status() const { return status_; }

 private:
  const char* what_;
  std::string name_;
  void* library_ = nullptr;
  Status status_;
};

}  // namespace dlpipe::engine
