// A temporary folder for targets whose reader takes paths; gone with the program.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace dlpipe {

class FuzzFolder {
 public:
  FuzzFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "dlpipe_fuzz_XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) std::abort();
    path_ = path;
  }
  ~FuzzFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  FuzzFolder(const FuzzFolder&) = delete;
  FuzzFolder& operator=(const FuzzFolder&) = delete;

  std::string path(const std::string& name = {}) const { return (path_ / name).string(); }
  /// Writes `name`; answers its path.
  std::string write(const std::string& name, const uint8_t* data, size_t size) const {
    std::ofstream(path(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace dlpipe
