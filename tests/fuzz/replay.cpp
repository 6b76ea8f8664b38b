// The main program of a fuzz target outside libFuzzer: every file of the corpus as it is, and mutated by
// seeds that are the same in every run.
//
//   fuzz_NAME [--mutations N] FILE_OR_FOLDER...
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

std::vector<fs::path> files_below(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Bytes read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

void run(const Bytes& bytes) {
  const Bytes exact(bytes);  // its own block: AddressSanitizer sees a read past the end
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

/// One change of the kinds that damage files: cut, flipped, overwritten, doubled, taken out.
void mutate(Bytes& bytes, std::mt19937_64& random) {
  if (bytes.empty()) return;
  const size_t at = random() % bytes.size();
  const size_t length = std::min<size_t>(1 + random() % 32, bytes.size() - at);
  const auto place = bytes.begin() + static_cast<ptrdiff_t>(at);
  switch (random() % 6) {
    case 0:
      bytes.resize(at);
      break;
    case 1:
      *place ^= static_cast<uint8_t>(1u << (random() % 8));
      break;
    case 2:
      std::generate(place, place + static_cast<ptrdiff_t>(length),
                    [&] { return static_cast<uint8_t>(random()); });
      break;
    case 3: {
      constexpr std::array<uint8_t, 4> kExtremes = {0x00, 0xff, 0x7f, 0x80};
      std::fill(place, place + static_cast<ptrdiff_t>(length), kExtremes[random() % kExtremes.size()]);
      break;
    }
    case 4: {
      const Bytes again(place, place + static_cast<ptrdiff_t>(length));
      bytes.insert(place, again.begin(), again.end());
      break;
    }
    default:
      bytes.erase(place, place + static_cast<ptrdiff_t>(length));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int mutations = 0;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--mutations" && i + 1 < argc) {
      mutations = std::atoi(argv[++i]);
      continue;
    }
    const auto below = files_below(argv[i]);
    if (below.empty()) {
      std::fprintf(stderr, "no files in %s\n", argv[i]);
      return 1;
    }
    files.insert(files.end(), below.begin(), below.end());
  }
  if (files.empty()) {
    std::fprintf(stderr, "usage: %s [--mutations N] FILE_OR_FOLDER...\n", argv[0]);
    return 2;
  }
  int64_t inputs = 0;
  for (size_t f = 0; f < files.size(); ++f) {
    const Bytes whole = read_file(files[f]);
    run(whole);
    ++inputs;
    for (int i = 0; i < mutations; ++i, ++inputs) {
      std::mt19937_64 random(f * 1'000'003 + static_cast<uint64_t>(i));
      Bytes damaged = whole;
      for (uint64_t n = 1 + random() % 4; n > 0; --n) mutate(damaged, random);
      run(damaged);
    }
  }
  std::printf("%zu files, %lld inputs\n", files.size(), static_cast<long long>(inputs));
  return 0;
}
