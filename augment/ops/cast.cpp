// cast(dtype): the floating-point type of the training input, written down for the engine.
#include "dlpipe/augment/op.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {

class Cast : public PrepOp {
 public:
  explicit Cast(DType dtype) : dtype_(dtype) {}

  Status fill(const ChannelStats&, BatchPrep& prep) const override {
    prep.dtype = dtype_;
    return {};
  }

 private:
  DType dtype_;
};

Result<std::shared_ptr<const PrepOp>> build(OpArguments& arguments) {
  const std::string name = arguments.text("dtype");
  const std::vector<std::string> known = {"f32", "bf16", "f16", "f64"};
  const auto dtype = parse_dtype(name);
  if (!dtype.ok() || !is_floating(*dtype)) {
    return Status(ErrorCode::kMisuse,
                  concat("dtype must be a floating-point type, got '", name, "'", suggestion(name, known)));
  }
  return std::shared_ptr<const PrepOp>(std::make_shared<Cast>(*dtype));
}

}  // namespace

extern const OpRecord cast_augmentation = {
    .name = "cast",
    .help = "the element type of the training input (ConvertImageDtype, ToFloat, ToDtype)",
    .version = 1,
    .params = {{"dtype", "string", "", "f32, bf16, f16 or f64"}},
    .build = nullptr,
    .build_prep = build};

}  // namespace dlpipe::augment
