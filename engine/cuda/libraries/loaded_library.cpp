#include "engine/cuda/libraries/loaded_library.h"

#include <dlfcn.h>

#include "base/text.h"

namespace dlpipe::engine::cuda {

LoadedLibrary::LoadedLibrary(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (library_ != nullptr) break;
    library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    name_ = name;
  }
  if (library_ == nullptr) status_ = Status(ErrorCode::kUnsupported, dlerror());
}

void* LoadedLibrary::symbol(const char* name) {
  if (library_ == nullptr) return nullptr;
  void* const found = dlsym(library_, name);
  if (found == nullptr && status_.ok())
    status_ = Status(ErrorCode::kUnsupported, concat(name_, " has no ", name));
  return found;
}

}  // namespace dlpipe::engine::cuda
