// Other libraries' augmentation recipes as dlpipe's expressions: what Albumentations saves (JSON or YAML), or the transforms of a
// Python program, as they are written there or printed ("Compose([RandomResizedCrop(224), ToTensor()])"). Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::run {

struct ConvertedAugment {
  std::string name = {};        // of the recipe in its program; "": none
  int line = 0;                 // where the program has it; 0: it was saved
  std::string expression = {};  // parses
  std::vector<std::string> no_equal =
      {};  // transforms that are left out, with the reason, and their line in a text of several
  std::vector<std::string> notes = {};  // what works in another way
};

/// One for each recipe in it. `recipe` is the name of the one that is meant. kCorrupt says what can't be read and where; `source`
/// names the text in messages.
Result<std::vector<ConvertedAugment>> convert_augments(std::string_view text, std::string_view source,
                                                       std::string_view recipe = {});

}  // namespace dlpipe::run
