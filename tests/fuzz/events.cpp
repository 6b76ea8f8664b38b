// Any bytes as a TensorBoard event file.
#include "io/formats/tfevents.h"
#include "tests/fuzz/fuzz_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const dlpipe::FuzzFolder folder;
  (void)dlpipe::formats::read_events(folder.write("events", data, size));
  return 0;
}
