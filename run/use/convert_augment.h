// Other libraries' augmentation recipes as dlpipe's expressions: what Albumentations saves (JSON or YAML), or torchvision's
// transforms as they are written or printed ("Compose([RandomResizedCrop(224), ToTensor()])"). Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::run {

struct ConvertedAugment {
  std::string expression;             // parses
  std::vector<std::string> no_equal;  // transforms that are left out, with the reason
  std::vector<std::string> notes;     // what works in another way
};

/// kCorrupt says what can't be read and where; `source` names the text in messages. `recipe` is the name of the one that is meant
/// in a program's text that gives names to several; "": there is one.
Result<ConvertedAugment> convert_augment(std::string_view text, std::string_view source,
                                         std::string_view recipe = {});

}  // namespace dlpipe::run
