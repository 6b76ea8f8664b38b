// Any bytes as what torch.save wrote, and as a pickle alone: what is listed is read or refused, and is no larger than the file allows.
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "io/formats/torch_file.h"
#include "tests/fuzz/fuzz_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlpipe::formats;
  static const dlpipe::FuzzFolder folder;
  (void)TorchPickle::parse({reinterpret_cast<const char*>(data), size});
  const auto file = TorchFile::open(folder.write("x.pth", data, size));
  if (!file.ok()) return 0;
  uint64_t total = 0;
  for (const SafetensorsEntry& entry : file->entries()) {
    total += entry.size_bytes();
    std::vector<std::byte> to(entry.size_bytes());
    (void)file->read(entry, to);
  }
  constexpr uint64_t kSmall = 1 << 20;
  if (total > 4 * size + kSmall) std::abort();
  return 0;
}
