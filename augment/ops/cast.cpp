// cast(dtype): the floating-point type of the training input, written down for the engine.
#include "dlpipe/augment/op.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {

class Cast : public Op {
 public:
  explicit Cast(DType dtype) : dtype_(dtype) {}

  bool is_prep() const override { return true; }
  ImageSize output(const ImageSize& in) const override { return in; }
  Status plan(const ImageSize&, RandomStream&, OpDraw&) const override { return {}; }
  Status apply(const OpDraw&, const ConstImageView&, const ImageView&, ChainScratch&) const override {
    return {};
  }
  Status fill_prep(const ChannelStats&, BatchPrep& prep) const override {
    prep.dtype = dtype_;
    return {};
  }

 private:
  DType dtype_;
};

Result<std::shared_ptr<const Op>> build(const OpArguments& arguments) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string name, arguments.text("dtype"));
  const std::vector<std::string> known = {"f32", "bf16", "f16", "f64"};
  const auto dtype = parse_dtype(name);
  if (!dtype.ok() || !is_floating(*dtype)) {
    return Status(ErrorCode::kMisuse,
                  concat("dtype must be a floating-point type, got '", name, "'", suggestion(name, known)));
  }
  return std::shared_ptr<const Op>(std::make_shared<Cast>(*dtype));
}

}  // namespace

extern const OpRecord cast_augmentation = {"cast",
                                           "the element type of the training input",
                                           1,
                                           {{"dtype", "string", "", "f32, bf16, f16 or f64"}},
                                           build};

}  // namespace dlpipe::augment
