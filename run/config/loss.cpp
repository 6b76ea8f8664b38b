#include "dlpipe/config.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/ops/losses.h"

namespace dlpipe::run {

namespace {

using engine::Tensor;

/// Logits as [N,K]. Those of pixels, [N,H,W,K], become one row per pixel.
Tensor rows_of(const Tensor& logits) {
  if (logits.rank() == 2) return logits;
  return engine::reshape(engine::plain(logits), {logits.elements() / logits.size(-1), logits.size(-1)});
}

Tensor cross_entropy_loss(const Tensor& logits, const Tensor& target, const Tensor& weight,
                          const LossArguments& arguments) {
  return engine::cross_entropy(rows_of(logits), target, weight, arguments.label_smoothing);
}

Tensor identity(int64_t size, Device& device) {
  // 1 0 0 ... repeated with a period one element longer than a row, so that the 1 moves by one place per row.
  const Tensor one = Tensor::full({1}, 1.0, DType::kF32, device);
  const Tensor zeros = Tensor::full({size}, 0.0, DType::kF32, device);
  const Tensor longer = engine::concat({one, zeros}, 0)
                            .view_as({size, size + 1}, std::array<int64_t, 2>{0, 1}, 0)
                            .contiguous_copy();
  return longer.view_as({size, size}, std::array<int64_t, 2>{size, 1}, 0);
}

/// f32 [N,K]. A label that is not a class is an error, except for samples of weight 0, which get a row of zeros. The host can't
/// check labels in a device's memory; there, every label that is not a class gets a row of zeros.
Tensor one_hot(const Tensor& target, const Tensor& weight, int64_t classes) {
  const engine::NoGrad no_grad;
  const engine::UseAutocast off(DType::kF32);
  if (!target.device().is_host()) return engine::embedding(identity(classes, target.device()), target);
  const engine::CrossEntropyTargets checked(target, weight, classes, "mse");
  Tensor rows = Tensor::zeros({target.elements(), classes});
  for (int64_t n = 0; n < checked.rows; ++n) {
    const int64_t label = checked.label[n];
    if (label >= 0 && label < classes) rows.data<float>()[n * classes + label] = 1;
  }
  return rows;
}

/// Mean over the columns of `each` [N,K], and over samples by weight.
Tensor mean_of(const Tensor& each, const Tensor& weight) {
  if (!weight.defined()) return engine::mean(each);
  const Tensor weighted = engine::mul(each, engine::reshape(weight, {each.size(0), 1}));
  const Tensor total = engine::scale(engine::sum(weight), static_cast<double>(each.size(1)));
  return engine::div(engine::sum(weighted), total);
}

/// The values that the outputs should have: `target` itself if it holds numbers, else the one-hot vectors of its classes.
Tensor numbers_of(const Tensor& outputs, const Tensor& target, const Tensor& weight) {
  return target.dtype() == DType::kI64 ? one_hot(target, weight, outputs.size(1)) : target;
}

Tensor distance(const Tensor& outputs, const Tensor& target, const Tensor& weight) {
  return engine::sub(outputs, numbers_of(outputs, target, weight));
}

Tensor absolute(const Tensor& x) {
  return engine::maximum(x, engine::scale(x, -1));
}

Tensor mse_loss(const Tensor& outputs, const Tensor& target, const Tensor& weight, const LossArguments&) {
  const Tensor d = distance(outputs, target, weight);
  return mean_of(engine::mul(d, d), weight);
}

Tensor l1_loss(const Tensor& outputs, const Tensor& target, const Tensor& weight, const LossArguments&) {
  return mean_of(absolute(distance(outputs, target, weight)), weight);
}

/// m^2 / (2 beta) + d - m for distances d, with m = min(d, beta): a parabola up to beta, a line beyond it.
Tensor smooth_of(const Tensor& d, double beta) {
  const Tensor m = engine::minimum(d, Tensor::full({1}, beta, DType::kF32, d.device()));
  const Tensor parabola = engine::scale(engine::mul(m, m), 0.5 / beta);
  return engine::add(parabola, engine::sub(d, m));
}

Tensor smooth_l1_loss(const Tensor& outputs, const Tensor& target, const Tensor& weight,
                      const LossArguments& arguments) {
  return mean_of(smooth_of(absolute(distance(outputs, target, weight)), arguments.beta), weight);
}

/// Huber, 1964: smooth_l1 times beta.
Tensor huber_loss(const Tensor& outputs, const Tensor& target, const Tensor& weight,
                  const LossArguments& arguments) {
  return engine::scale(smooth_l1_loss(outputs, target, weight, arguments), arguments.beta);
}

/// Milletari, Navab and Ahmadi, "V-Net", 2016: 1 minus the mean over classes of (2 |p t| + 1) / (|p| + |t| + 1), with sums over
/// all pixels of the batch.
Tensor dice_loss(const Tensor& logits, const Tensor& target, const Tensor& weight, const LossArguments&) {
  const Tensor rows = rows_of(logits);
  const Tensor column = engine::reshape(weight, {weight.elements(), 1});
  const Tensor truth = engine::mul(one_hot(target, weight, rows.size(1)), column);
  const Tensor p = engine::mul(engine::softmax(rows), column);
  const Tensor both = engine::scale(engine::sum(engine::mul(p, truth), {0}), 2, 1);
  const Tensor either = engine::scale(engine::add(engine::sum(p, {0}), engine::sum(truth, {0})), 1, 1);
  return engine::scale(engine::mean(engine::div(both, either)), -1, 1);
}

Tensor cross_entropy_dice_loss(const Tensor& logits, const Tensor& target, const Tensor& weight,
                               const LossArguments& arguments) {
  return engine::add(cross_entropy_loss(logits, target, weight, arguments),
                     dice_loss(logits, target, weight, arguments));
}

// Losses for labels that do not exclude each other: each label is a choice of two classes, "yes" with logit x and "no" with 0.

/// log(sigmoid(x)) and log(1 - sigmoid(x)): [N,K] -> [N,K,2]. Exact for any x, with a gradient also at 0.
Tensor log_choices(const Tensor& x) {
  const Shape one{x.size(0), x.size(1), 1};
  const Tensor yes = engine::reshape(x, one);
  return engine::log_softmax(engine::concat({yes, Tensor::full(one, 0, DType::kF32, x.device())}, 2), -1);
}

/// [N,K,2] from target f32 [N,K]: `yes` times the label's weight where the label is present, `no` where it is absent.
Tensor choices(const Tensor& target, double yes, double no, const LossArguments& arguments) {
  const Shape one{target.size(0), target.size(1), 1};
  Tensor there = engine::scale(target, yes);
  if (arguments.label_weights.defined())
    there = engine::mul(there, arguments.label_weights.to(target.device()));
  return engine::concat({engine::reshape(there, one), engine::reshape(engine::scale(target, -no, no), one)},
                        2);
}

/// The negative mean over labels of the chosen one of `values` [N,K,2], weighted by `chosen`.
Tensor chosen_loss(const Tensor& chosen, const Tensor& values, const Tensor& weight) {
  const Tensor each = engine::sum(engine::mul(chosen, values), {2}, false);
  return engine::scale(mean_of(each, weight), -1);
}

Tensor bce_loss(const Tensor& outputs, const Tensor& target, const Tensor& weight,
                const LossArguments& arguments) {
  return chosen_loss(choices(target, arguments.pos_weight, 1, arguments), log_choices(outputs), weight);
}

/// [N,K,2] with the last axis in the other order.
Tensor swapped(const Tensor& x) {
  return engine::concat({engine::slice(x, 2, 1, 2), engine::slice(x, 2, 0, 1)}, 2);
}

/// The two terms of each label's focal loss, [N,K,2], with the sign of a logarithm. For a target of 0 or 1, one term is 0.
Tensor focal_terms(const Tensor& outputs, const Tensor& target, const LossArguments& arguments) {
  const Tensor log_p = log_choices(outputs);
  const Tensor doubt = engine::exp(engine::scale(swapped(log_p), arguments.focal_gamma));
  const bool weighs = arguments.focal_alpha >= 0;
  const Tensor chosen =
      choices(target, weighs ? arguments.focal_alpha : 1, weighs ? 1 - arguments.focal_alpha : 1, arguments);
  return engine::mul(chosen, engine::mul(doubt, log_p));
}

/// Lin et al., "Focal Loss for Dense Object Detection", 2017: each logarithm has the factor (1 - p)^gamma. Labels that are
/// present have the weight alpha.
Tensor focal_loss(const Tensor& outputs, const Tensor& target, const Tensor& weight,
                  const LossArguments& arguments) {
  const Tensor each = engine::sum(focal_terms(outputs, target, arguments), {2}, false);
  return engine::scale(mean_of(each, weight), -1);
}

/// Ridnik et al., "Asymmetric Loss For Multi-Label Classification", 2021: the focal loss with separate exponents for present and
/// absent labels. The probability of an absent label is reduced by `margin`, to 0 at least.
Tensor asymmetric_loss(const Tensor& outputs, const Tensor& target, const Tensor& weight,
                       const LossArguments& arguments) {
  const Tensor log_p = log_choices(outputs);
  const Tensor log_yes = engine::slice(log_p, 2, 0, 1);
  const Tensor no = engine::exp(engine::slice(log_p, 2, 1, 2));
  const Tensor one = Tensor::full({1}, 1, DType::kF32, log_p.device());
  const Tensor sure_no = engine::minimum(engine::scale(no, 1, arguments.margin), one);
  constexpr double kLeast = 1e-8;  // for the argument of a logarithm
  const Tensor least = Tensor::full({1}, kLeast, DType::kF32, log_p.device());
  const auto power = [&](const Tensor& x, double exponent) {
    return engine::exp(engine::scale(engine::log(engine::maximum(x, least)), exponent));
  };
  const auto doubt = [&](const Tensor& p, double gamma) {
    return gamma == 0 ? engine::scale(p, 0, 1) : power(engine::scale(p, -1, 1), gamma);
  };
  const Tensor values = engine::concat(
      {engine::mul(doubt(engine::exp(log_yes), arguments.gamma_pos), log_yes),
       engine::mul(doubt(sure_no, arguments.gamma_neg), engine::log(engine::maximum(sure_no, least)))},
      2);
  return chosen_loss(choices(target, 1, 1, arguments), values, weight);
}

// Losses of detectors: outputs [N,H,W,numbers] or [N,rows,numbers] (models.h) and targets with the same number of rows
// (box_coding.h).

/// The columns of outputs and targets, f32, with M rows.
struct DetectorRows {
  /// `others` and `more` as in BoxCodingRecord.
  DetectorRows(const Tensor& all, const Tensor& target_in, const Tensor& weight, int64_t others, int64_t more)
      : outputs(engine::cast(rows_of_detector(all), DType::kF32)),
        target(target_in),
        width(outputs.size(1)),
        classes(width - others),
        column(engine::reshape(weight, {outputs.size(0), 1})),
        truths(engine::slice(target, 1, 0, classes)),
        sides(engine::slice(target, 1, classes, classes + 4)),
        has_object(engine::mul(engine::sum(truths, {1}, true), column)) {
    if (more > 0) last = engine::slice(target, 1, classes + 4, classes + 4 + more);
  }
  /// Columns [begin, end) of the outputs.
  Tensor part(int64_t begin, int64_t end) const { return engine::slice(outputs, 1, begin, end); }
  /// The total weight of the rows with an object, at least 1.
  Tensor objects() const {
    return engine::maximum(engine::sum(has_object), Tensor::full({}, 1, DType::kF32, outputs.device()));
  }

  static Tensor rows_of_detector(const Tensor& all) {
    return engine::reshape(engine::plain(all), {all.elements() / all.size(-1), all.size(-1)});
  }

  Tensor outputs, target;
  int64_t width, classes;
  Tensor column;         // [M,1]: the rows' weights
  Tensor truths, sides;  // [M,classes], [M,4]
  Tensor has_object;     // [M,1]: the weight of rows with an object, else 0
  Tensor last = {};      // [M,more]
};

/// The two columns of `sides` [M,2], multiplied: [M,1].
Tensor area_of(const Tensor& sides) {
  return engine::mul(engine::slice(sides, 1, 0, 1), engine::slice(sides, 1, 1, 2));
}

/// [M,1]: 1 minus the generalised (Rezatofighi et al., 2019) or distance (Zheng et al., 2020) intersection over union of boxes.
/// A box is [M,4]: the distances from a point to its left, upper, right and lower side. `share_it`: the point is in both boxes.
Tensor overlap_loss(const Tensor& sides, const Tensor& target, bool takes_distance, bool share_it = true) {
  const Tensor before = engine::slice(sides, 1, 0, 2), behind = engine::slice(sides, 1, 2, 4);
  const Tensor true_before = engine::slice(target, 1, 0, 2), true_behind = engine::slice(target, 1, 2, 4);
  const Tensor extent =
      engine::add(engine::minimum(before, true_before), engine::minimum(behind, true_behind));
  const Tensor both = area_of(share_it ? extent : engine::relu(extent));
  const Tensor either = engine::sub(
      engine::add(area_of(engine::add(before, behind)), area_of(engine::add(true_before, true_behind))),
      both);
  const Tensor hull = engine::add(engine::maximum(before, true_before), engine::maximum(behind, true_behind));
  const Tensor overlap = engine::div(both, either);
  if (!takes_distance) {
    const Tensor area = area_of(hull);
    return engine::sub(engine::div(engine::sub(area, either), area), engine::scale(overlap, 1, -1));
  }
  const Tensor twice = engine::sub(engine::sub(behind, before), engine::sub(true_behind, true_before));
  const Tensor distance = engine::scale(engine::sum(engine::mul(twice, twice), {1}, true), 0.25);
  const Tensor diagonal = engine::sum(engine::mul(hull, hull), {1}, true);
  return engine::sub(engine::div(distance, diagonal), engine::scale(overlap, 1, -1));
}

/// The weighted sum of the focal loss over all rows.
Tensor focal_sum(const DetectorRows& rows, const LossArguments& arguments) {
  const Tensor cells =
      engine::sum(focal_terms(rows.part(0, rows.classes), rows.truths, arguments), {2}, false);
  return engine::scale(engine::sum(engine::mul(cells, rows.column)), -1);
}

/// Tian et al., "FCOS", 2019: the focal loss of all cells plus the box loss of cells with an object. Both are weighted sums,
/// divided by the total weight of cells with an object (at least 1). The outputs' sides are logarithms.
Tensor grid_loss(const Tensor& outputs, const Tensor& target, const Tensor& weight,
                 const LossArguments& arguments, bool takes_distance) {
  const engine::UseAutocast off(DType::kF32);
  const DetectorRows rows(outputs, target, weight, 4, 0);
  constexpr double kMost = 8;  // an image has no more than e^8 strides, and more would overflow
  const Tensor sides = engine::exp(engine::clip(rows.part(rows.classes, rows.width), -kMost, kMost));
  const Tensor of_boxes =
      engine::sum(engine::mul(overlap_loss(sides, rows.sides, takes_distance), rows.has_object));
  return engine::div(engine::add(focal_sum(rows, arguments), of_boxes), rows.objects());
}

Tensor fcos_loss(const Tensor& outputs, const Tensor& target, const Tensor& weight,
                 const LossArguments& arguments) {
  return grid_loss(outputs, target, weight, arguments, false);
}

Tensor fcos_diou_loss(const Tensor& outputs, const Tensor& target, const Tensor& weight,
                      const LossArguments& arguments) {
  return grid_loss(outputs, target, weight, arguments, true);
}

/// torchvision's FCOS loss, which adds a loss of the centerness. The outputs' sides are distances, not below 0.
Tensor torchvision_fcos_loss(const Tensor& outputs, const Tensor& target, const Tensor& weight,
                             const LossArguments& arguments) {
  const engine::UseAutocast off(DType::kF32);
  const DetectorRows rows(outputs, target, weight, 5, 1);
  const Tensor boxes = overlap_loss(rows.part(rows.classes, rows.classes + 4), rows.sides, false);
  const Tensor middles = engine::sum(
      engine::mul(choices(rows.last, 1, 1, {}), log_choices(rows.part(rows.classes + 4, rows.width))), {2},
      false);
  const Tensor of_objects = engine::sum(engine::mul(engine::sub(boxes, middles), rows.has_object));
  return engine::div(engine::add(focal_sum(rows, arguments), of_objects), rows.objects());
}

/// Lin et al., "Focal Loss for Dense Object Detection", 2017: the focal loss of the rows that count plus a loss of boxes, as the
/// mean over images. Both are divided by the number of the image's rows with an object, which is part of the rows' weights.
/// `of_codes` computes the loss of boxes, [M,K], from the outputs' codes and the true ones.
template <class OfCodes>
Tensor retinanet_loss(const Tensor& outputs, const Tensor& target, const Tensor& weight,
                      const LossArguments& arguments, const OfCodes& of_codes) {
  const engine::UseAutocast off(DType::kF32);
  const DetectorRows rows(outputs, target, weight, 4, 1);
  const Tensor of_boxes =
      engine::sum(engine::mul(of_codes(rows.part(rows.classes, rows.width), rows.sides), rows.has_object));
  return engine::div(engine::add(focal_sum(rows, arguments), of_boxes), engine::sum(rows.last));
}

Tensor torchvision_retinanet_loss(const Tensor& outputs, const Tensor& target, const Tensor& weight,
                                  const LossArguments& arguments) {
  return retinanet_loss(outputs, target, weight, arguments, [](const Tensor& codes, const Tensor& truths) {
    return absolute(engine::sub(codes, truths));
  });
}

/// The sides of a coded box: distances from the anchor's middle, in units of the anchor's size. As BoxCoder with weights of 1.
Tensor sides_of_code(const Tensor& code) {
  constexpr double kMostLogarithm = 4.135166556742356;  // log(1000 / 16)
  const Tensor middle = engine::slice(code, 1, 0, 2), size = engine::slice(code, 1, 2, 4);
  const Tensor half = engine::scale(
      engine::exp(engine::clip(size, -std::numeric_limits<double>::infinity(), kMostLogarithm)), 0.5);
  return engine::concat({engine::sub(half, middle), engine::add(half, middle)}, 1);
}

/// The intersection over union does not depend on the unit: sizes of the anchor here, pixels in torchvision.
Tensor torchvision_retinanet_giou_loss(const Tensor& outputs, const Tensor& target, const Tensor& weight,
                                       const LossArguments& arguments) {
  return retinanet_loss(outputs, target, weight, arguments, [](const Tensor& codes, const Tensor& truths) {
    return overlap_loss(sides_of_code(codes), sides_of_code(truths), false, false);
  });
}

/// f32 [M,1] on the losses' device: 1 for the rows without an object that SSD trains on, else 0. In each image these are the rows
/// with the largest `losses` [M,1], the first of equal ones, at most as many as the image's first target row says. Chosen on the
/// host.
Tensor hardest_rows(const Tensor& losses, const DetectorRows& rows, int64_t images) {
  const engine::NoGrad no_grad;
  const auto on_host = [](const Tensor& x) { return x.detach().contiguous_copy().to(cpu_device()); };
  const Tensor values = on_host(losses), column = on_host(rows.column),
               truths = on_host(engine::sum(rows.truths, {1}, true)), counts = on_host(rows.last);
  const Tensor chosen = Tensor::zeros({values.elements(), 1});
  const int64_t each = values.elements() / images;
  for (int64_t image = 0; image < images; ++image) {
    const int64_t first = image * each;
    std::vector<int64_t> candidates;
    for (int64_t row = first; row < first + each; ++row)
      if (column.data<float>()[row] != 0 && truths.data<float>()[row] == 0) candidates.push_back(row);
    const auto most = std::min(candidates.size(), static_cast<size_t>(counts.data<float>()[first]));
    const float* const loss = values.data<float>();
    std::ranges::stable_sort(candidates, [&](int64_t a, int64_t b) { return loss[a] > loss[b]; });
    for (size_t i = 0; i < most; ++i) chosen.data<float>()[candidates[i]] = 1;
  }
  return chosen.to(losses.device());
}

/// Liu et al., "SSD", 2016: the cross-entropy of rows with an object and of the hardest rows without one, plus smooth L1 of the
/// codes of boxes, divided by the total weight of rows with an object. The background's logit comes first.
Tensor torchvision_ssd_loss(const Tensor& outputs, const Tensor& target, const Tensor& weight,
                            const LossArguments& arguments) {
  const engine::UseAutocast off(DType::kF32);
  const DetectorRows rows(outputs, target, weight, 5, 1);
  const Tensor log_p = engine::log_softmax(rows.part(0, rows.classes + 1));
  Tensor truths = rows.truths;
  if (arguments.label_weights.defined())
    truths = engine::mul(truths, arguments.label_weights.to(truths.device()));
  const Tensor of_classes =
      engine::sum(engine::mul(truths, engine::slice(log_p, 1, 1, rows.classes + 1)), {1}, true);
  const Tensor of_background = engine::slice(log_p, 1, 0, 1);
  const Tensor counts =
      engine::mul(hardest_rows(engine::scale(of_background, -1), rows, outputs.size(0)), rows.column);
  const Tensor distances = absolute(engine::sub(rows.part(rows.classes + 1, rows.width), rows.sides));
  const Tensor of_boxes = smooth_of(distances, 1);
  const Tensor logarithms = engine::add(engine::sum(engine::mul(of_classes, rows.column)),
                                        engine::sum(engine::mul(of_background, counts)));
  return engine::div(engine::sub(engine::sum(engine::mul(of_boxes, rows.has_object)), logarithms),
                     rows.objects());
}

constexpr engine::OptionDefault kCrossEntropyOptions[] = {{"label-smoothing", "0"}};
constexpr engine::OptionDefault kBceOptions[] = {{"pos-weight", "1"}};
constexpr engine::OptionDefault kFocalOptions[] = {{"focal-gamma", "2"}, {"focal-alpha", "0.25"}};
constexpr engine::OptionDefault kAsymmetricOptions[] = {
    {"gamma-neg", "4"}, {"gamma-pos", "1"}, {"margin", "0.05"}};
constexpr engine::OptionDefault kBetaOptions[] = {{"loss-beta", "1"}};

constexpr std::array<LossRecord, 16> kRecords = {{
    {"cross_entropy", "softmax and the logarithm of the label's probability", cross_entropy_loss,
     kCrossEntropyOptions, "classify, segment"},
    {"dice",
     "1 minus the mean over classes of the smoothed Dice coefficient, (2 |p t| + 1) / (|p| + |t| + 1), over "
     "all pixels of the batch",
     dice_loss,
     {},
     "segment"},
    {"cross_entropy_dice", "the sum of cross_entropy and dice", cross_entropy_dice_loss, kCrossEntropyOptions,
     "segment"},
    {"mse",
     "squared distance of the outputs to the targets; for classes, to the label's one-hot vector",
     mse_loss,
     {},
     "classify, regress"},
    {"bce", "binary cross-entropy of each label, with logits; --pos-weight weights positive labels", bce_loss,
     kBceOptions, "multilabel"},
    {"focal", "binary cross-entropy with less weight on well-classified labels (Lin et al., 2017)",
     focal_loss, kFocalOptions, "multilabel"},
    {"asymmetric", "focal, with separate exponents for positive and negative labels (Ridnik et al., 2021)",
     asymmetric_loss, kAsymmetricOptions, "multilabel"},
    {"l1", "absolute distance of the outputs to the targets", l1_loss, {}, "regress"},
    {"smooth_l1", "squared distance over 2 --loss-beta up to --loss-beta, absolute beyond it", smooth_l1_loss,
     kBetaOptions, "regress"},
    {"huber", "smooth_l1 times --loss-beta", huber_loss, kBetaOptions, "regress"},
    {"fcos", "focal loss of the classes and GIoU loss of the boxes, over the cells with an object", fcos_loss,
     kFocalOptions, "detect"},
    {"fcos_diou", "fcos, with DIoU loss of the boxes", fcos_diou_loss, kFocalOptions, "detect"},
    {"torchvision_fcos", "torchvision's FCOS loss: fcos plus binary cross-entropy of the centerness",
     torchvision_fcos_loss, kFocalOptions, "detect", "fcos"},
    {"torchvision_retinanet",
     "torchvision's RetinaNet loss: focal loss of the classes and L1 loss of the boxes, averaged over images",
     torchvision_retinanet_loss, kFocalOptions, "detect", "retinanet"},
    {"torchvision_retinanet_giou",
     "torchvision's RetinaNet v2 loss: focal loss of the classes and GIoU loss of the boxes, averaged over "
     "images",
     torchvision_retinanet_giou_loss, kFocalOptions, "detect", "retinanet_giou"},
    {"torchvision_ssd",
     "torchvision's SSD loss: cross-entropy of objects and of the hardest rows without one, smooth L1 of the "
     "boxes",
     torchvision_ssd_loss,
     {},
     "detect",
     "ssd"},
}};
constexpr std::array<const LossRecord*, kRecords.size()> kLosses = [] {
  std::array<const LossRecord*, kRecords.size()> losses{};
  for (size_t i = 0; i < losses.size(); ++i) losses[i] = &kRecords[i];
  return losses;
}();

}  // namespace

std::span<const LossRecord* const> LossRecord::built_in() {
  return kLosses;
}

Result<const LossRecord*> find_loss(std::string_view name) {
  return LossRegistry::builtin().find(name);
}

}  // namespace dlpipe::run
