#include "dlpipe/run/convert/transform_rules.h"

#include "dlpipe/base/text.h"

namespace dlpipe::run {

TransformRule chance(const char* op, size_t place, double fallback) {
  return [=](const TransformCall& t) -> TransformText {
    return concat(op, "(", number_text(t.value("p", place, fallback)), ")");
  };
}

bool is_no_op(std::string_view name) {
  for (const std::string_view known :
       {"ToTensor", "ToTensorV2", "PILToTensor", "ToPILImage", "ToImage", "ToDtype", "ConvertImageDtype",
        "ToFloat", "NoOp", "Identity", "ToPureTensor", "ClampBoundingBoxes", "ClampBoundingBox",
        "ConvertBoundingBoxFormat", "RGB", "ToRGB", "MaybeToTensor", "ToNumpy"}) {
    if (name == known) return true;
  }
  return false;
}

bool is_container(std::string_view name) {
  for (const std::string_view known : {"Compose", "ReplayCompose", "Sequential", "RandomApply", "OneOf",
                                       "OneOrOther", "RandomChoice", "SomeOf", "RandomOrder"}) {
    if (name == known) return true;
  }
  return false;
}

TransformRule transform_rule(std::string_view name) {
  for (const TransformRules* rules :
       {&size_rules(), &warp_rules(), &colour_rules(), &noise_rules(), &policy_rules(), &timm_rules()}) {
    if (const auto found = rules->find(name); found != rules->end()) return found->second;
  }
  return nullptr;
}

}  // namespace dlpipe::run
