#include "run/use/predict.h"
#include "dlpipe/predictor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "base/machine.h"
#include "base/messages.h"
#include "base/names.h"
#include "base/portable_math.h"
#include "base/text.h"
#include "dlpipe/augment.h"
#include "dlpipe/batch.h"
#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "dlpipe/graph.h"
#include "dlpipe/log.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "dlpipe/tensor.h"
#include "engine/core/constant_cache.h"
#include "engine/core/parallel.h"
#include "io/formats/atomic_file.h"
#include "run/input/box_coding.h"
#include "run/task/task.h"
#include "run/use/evaluate.h"
#include "run/use/loaded_model.h"
#include "run/use/preview.h"
#include "run/use/seen_map.h"

namespace dlpipe::run {

using engine::Tensor;

namespace {

struct SeenImages {
  Tensor pixels;              // u8 [batch,H,W,C]
  std::vector<SeenMap> maps;  // of each file, if boxes or masks are mapped back to it
};

}  // namespace

struct Predictor::Impl {
  Impl(const PredictOptions& wanted, const Registries& registries);

  /// Logits f32 [batch, classes]: the first rows are those of `files`. `errors` gets one status per file. `seen`, if not null,
  /// gets the images as the model sees them.
  engine::Tensor batch_logits(std::span<const ImageFile> files, int64_t batch, std::vector<Status>& errors,
                              SeenImages* seen = nullptr);
  engine::ModelOutput output() const { return task_of(model.state.task).output; }
  /// Adds the class of each pixel, from logits [H,W,classes].
  void add_mask(std::span<const float> logits, Prediction& prediction) const;
  /// Adds the mask in the size of the file's image, from the same logits that `eval` judges, and the
  /// share of each class in it.
  void add_whole_mask(std::span<const float> logits, const SeenMap& map, Prediction& prediction) const;
  /// The prediction for a file: `error` if that is not empty, else what its logits mean. Masks and
  /// boxes are added later.
  Prediction prediction_of(const std::string& path, const std::string& error,
                           std::span<const float> logits) const;
  /// Probabilities, or values in the data's units; empty if one of them is not finite.
  std::vector<double> answers_of(std::span<const float> logits) const;
  /// Reads, decodes and augments one file into `pixels` [H,W,C]. `map`, if not null, gets the mapping between file and pixels.
  Status load_image(const ImageFile& file, uint8_t* pixels, SeenMap* map) const;

  PredictOptions options;
  LoadedModel model;
  engine::ConstantCache constants;
  augment::Chain chain;
  augment::ImageSize out_size;  // that the chain makes; views (--tta) may show the model less of it
  BatchPrep prep;
  std::vector<double> thresholds;  // of each label or class
  BatchTimes times;
};

Predictor::Impl::Impl(const PredictOptions& wanted, const Registries& registries) : options(wanted) {
  engine::set_engine_threads(options.threads > 0 ? options.threads : available_threads());
  model = load_model(options.model, registries);
  model.model->to(*value_or_throw(registries.find_device(options.device)));
  constants = weights_as_constants(model.model->parameters());
  if (model.state.arguments.length > 0) {
    refuse("predict", model.state.model, " takes tokens, not images; see dlpipe generate");
  }
  chain = value_or_throw(augment::Chain::parse(model.state.val_augment, registries.augmentations));
  if (const std::string random = random_chain_warning(chain, model.state.val_augment); !random.empty())
    log(LogLevel::kWarning, random);
  throw_if_error(chain.fill_prep(prep));
  const engine::ModelArguments& made_for = model.state.arguments;
  out_size = value_or_throw(chain.output({static_cast<int>(made_for.width), static_cast<int>(made_for.height),
                                          static_cast<int>(made_for.channels)}));
  const std::string& task = model.state.task.name;
  if ((options.threshold || !options.thresholds.empty()) && task != "multilabel" && task != "detect")
    refuse("predict", "--threshold is for labels and boxes, and this model's task is ", task,
           "; leave it out");
  constexpr double kDefaultThreshold = 0.5;
  thresholds.assign(model.state.classes.size(), options.threshold.value_or(kDefaultThreshold));
  for (const auto& [name, threshold] : options.thresholds) {
    const auto found = std::ranges::find(model.state.classes, name);
    if (found == model.state.classes.end())
      refuse("predict", "--threshold names ", in_quotes(name), ", which the model does not have; it has ",
             quoted_names(model.state.classes));
    thresholds[static_cast<size_t>(found - model.state.classes.begin())] = threshold;
  }
}

Predictor::Predictor(const PredictOptions& options, const Registries& registries)
    : impl_(std::make_unique<Impl>(options, registries)) {}

Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;

const LoadedModel& Predictor::model() const {
  return impl_->model;
}

Predictor::BatchTimes Predictor::last_times() const {
  return impl_->times;
}

size_t Predictor::rows_at_once(size_t images) const {
  return std::min(static_cast<size_t>(impl_->options.batch), images);
}

void Predictor::predict(std::span<const ImageFile> files,
                        const std::function<bool(const Prediction&)>& sink) {
  // All batches have the same size, so that a kernel is chosen once; rows without a file are also computed.
  const size_t batch = rows_at_once(files.size());
  for (size_t begin = 0; begin < files.size(); begin += batch) {
    const auto there = files.subspan(begin, std::min(batch, files.size() - begin));
    if (!predict_batch(there, static_cast<int64_t>(batch), sink)) return;
  }
}

bool Predictor::predict_piece(std::span<const ImageFile> files,
                              const std::function<bool(const Prediction&)>& sink) {
  return predict_batch(files, static_cast<int64_t>(rows_at_once(std::bit_ceil(files.size()))), sink);
}

Status Predictor::Impl::load_image(const ImageFile& file, uint8_t* pixels, SeenMap* map) const {
  if (!file.problem.empty()) return Status(ErrorCode::kIo, file.problem);
  const int channels = out_size.channels;
  const auto load = [&]() -> Status {
    std::string read;
    if (!file.bytes) {
      DLPIPE_ASSIGN_OR_RETURN(read, formats::read_file(file.path));
    }
    const std::string& text = file.bytes ? *file.bytes : read;
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    DLPIPE_ASSIGN_OR_RETURN(const data::ImageInfo info, data::probe_image(bytes));
    DLPIPE_RETURN_IF_ERROR(data::check_pixels(info, options.max_pixels));
    const bool is_turned = swaps_axes(info.orientation);
    augment::ImageSize size{is_turned ? info.height : info.width, is_turned ? info.width : info.height,
                            channels};
    augment::ChainPlan plan;
    DLPIPE_RETURN_IF_ERROR(chain.plan(size, SampleKey{}, plan));
    if (map != nullptr) {
      DLPIPE_ASSIGN_OR_RETURN(*map, seen_map(plan));
    }
    const Region& region = plan.source_region;
    std::vector<uint8_t> decoded(static_cast<size_t>(region.width) * static_cast<size_t>(region.height) *
                                 static_cast<size_t>(channels));
    const ImageView source{decoded.data(), region.width, region.height, channels,
                           static_cast<ptrdiff_t>(region.width) * channels};
    data::ImageDecoder decoder({.max_pixels = options.max_pixels});
    DLPIPE_RETURN_IF_ERROR(decoder.decode_oriented(bytes, info, region, source));
    const ImageView out{pixels, out_size.width, out_size.height, channels,
                        static_cast<ptrdiff_t>(out_size.width) * channels};
    augment::ChainScratch scratch;
    return chain.apply(plan, source, out, scratch);
  };
  try {
    return load();
  } catch (...) {
    return status_from_current_exception("predict");
  }
}

Tensor Predictor::Impl::batch_logits(std::span<const ImageFile> files, int64_t batch,
                                     std::vector<Status>& errors, SeenImages* seen) {
  const Tensor bytes = Tensor::zeros({batch, out_size.height, out_size.width, out_size.channels}, DType::kU8);
  errors.resize(files.size());
  const int64_t image_bytes = int64_t{out_size.height} * out_size.width * out_size.channels;
  const int64_t began = now_ns();
  const bool goes_back = output() != engine::ModelOutput::kImage;
  std::vector<SeenMap> maps(goes_back ? files.size() : 0);
  engine::parallel_slices(static_cast<int64_t>(files.size()), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    errors[at] =
        load_image(files[at], bytes.data<uint8_t>() + i * image_bytes, maps.empty() ? nullptr : &maps[at]);
  });
  if (seen != nullptr) *seen = {bytes, std::move(maps)};
  const int64_t decoded = now_ns();
  const engine::NoGrad no_grad;
  const engine::UseConstantCache packed_once(&constants);
  const engine::UseAutocast autocast(dtype_of(model, options.model.dtype));
  Tensor logits = view_logits(*model.model, engine::batch_prep(bytes.to(model.model->device()), prep),
                              value_or_throw(parse_views(model.state.tta)))
                      .contiguous_copy()
                      .to(cpu_device());
  times = {decoded - began, now_ns() - decoded};
  return logits;
}

constexpr const char* kNoAnswer = "the model returns NaN or infinity, so there is no prediction";

void Predictor::append_probabilities(std::span<const ImageFile> files, size_t rows, size_t begin,
                                     std::vector<float>& all) {
  if (impl_->output() != engine::ModelOutput::kImage)
    refuse("predict", "a model of --task ", impl_->model.state.task.name,
           " has no row of probabilities for each image; predict_batch returns its predictions");
  std::vector<Status> errors;
  const Tensor logits = impl_->batch_logits(files, static_cast<int64_t>(rows), errors);
  const auto classes = static_cast<size_t>(logits.elements() / logits.size(0));
  for (size_t i = 0; i < files.size(); ++i) {
    if (!errors[i].ok())
      throw Error(Status(errors[i].code(), concat("[predict] image ", begin + i, ": ", errors[i].message())));
    const std::vector<double> answers = impl_->answers_of({logits.data<float>() + i * classes, classes});
    if (answers.empty())
      throw Error(Status(ErrorCode::kNonfinite, concat("[predict] image ", begin + i, ": ", kNoAnswer)));
    for (const double answer : answers) all.push_back(static_cast<float>(answer));
  }
}

std::vector<PredictedBox> predicted_boxes(const ModelState& state, augment::ImageSize made,
                                          const SeenMap& map, std::span<const float> outputs,
                                          std::span<const double> thresholds) {
  const BoxRows rows{state.task.boxes, made.height, made.width, static_cast<int64_t>(state.classes.size())};
  std::vector<PredictedBox> boxes;
  for (const FoundBox& found : find_boxes(rows, outputs)) {
    const auto number = static_cast<size_t>(found.label);
    if (!thresholds.empty() && static_cast<double>(found.score) < thresholds[number]) continue;
    const std::array<double, 4> sides = map.box(found.box);
    if (sides[0] >= sides[2] || sides[1] >= sides[3]) continue;  // it is in the chain's padding
    boxes.push_back({.name = state.classes[number],
                     .number = number,
                     .score = found.score,
                     .box = sides,
                     .seen = {found.box[0], found.box[1], found.box[2], found.box[3]}});
  }
  return boxes;
}

void Predictor::Impl::add_mask(std::span<const float> logits, Prediction& prediction) const {
  const size_t classes = model.state.classes.size(), count = logits.size() / classes;
  for (size_t i = 0; i < count; ++i) {
    const float* const own = &logits[i * classes];
    prediction.mask.push_back(static_cast<uint8_t>(std::max_element(own, own + classes) - own));
  }
}

void Predictor::Impl::add_whole_mask(std::span<const float> logits, const SeenMap& map,
                                     Prediction& prediction) const {
  const auto classes = static_cast<int64_t>(model.state.classes.size());
  prediction.height = map.whole.height;
  prediction.width = map.whole.width;
  prediction.whole_mask.assign(static_cast<size_t>(prediction.height * prediction.width),
                               TargetSpec::kIgnored);
  engine::parallel_slices(prediction.height, [&](int64_t y) {
    uint8_t* const row = &prediction.whole_mask[static_cast<size_t>(y * prediction.width)];
    std::vector<float> own(static_cast<size_t>(classes));
    for (int64_t x = 0; x < prediction.width; ++x) {
      const augment::Place place =
          map.to_seen.place(static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5);
      if (logits_at(place, logits.data(), prediction.seen_height, prediction.seen_width, classes, own.data()))
        row[x] = static_cast<uint8_t>(std::ranges::max_element(own) - own.begin());
    }
  });
  std::array<int64_t, TargetSpec::kIgnored + 1> counts{};
  for (const uint8_t number : prediction.whole_mask) ++counts[number];
  const auto seen = static_cast<int64_t>(prediction.whole_mask.size()) - counts[TargetSpec::kIgnored];
  for (size_t c = 0; c < model.state.classes.size() && c < TargetSpec::kIgnored; ++c) {
    if (counts[c] > 0)
      prediction.values.emplace_back(model.state.classes[c],
                                     static_cast<double>(counts[c]) / static_cast<double>(seen));
  }
}

std::vector<double> Predictor::Impl::answers_of(std::span<const float> logits) const {
  std::vector<double> answers = task_of(model.state.task).answers(logits, model.state.task);
  if (!std::ranges::all_of(answers, [](double answer) { return std::isfinite(answer); })) answers.clear();
  return answers;
}

Prediction Predictor::Impl::prediction_of(const std::string& path, const std::string& error,
                                          std::span<const float> logits) const {
  Prediction prediction{path, {}, error};
  const ModelState& state = model.state;
  prediction.task = state.task.name;
  if (!error.empty()) return prediction;
  if (output() != engine::ModelOutput::kImage) {
    if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); }))
      prediction.error = kNoAnswer;
    return prediction;
  }
  const std::vector<double> answers = answers_of(logits);
  if (answers.empty()) {
    prediction.error = kNoAnswer;
    return prediction;
  }
  prediction.answers.assign(answers.begin(), answers.end());
  if (!task_of(state.task).names_classes) {
    for (size_t k = 0; k < answers.size(); ++k)
      prediction.values.emplace_back(state.classes.at(k), answers[k]);
    return prediction;
  }
  for (const size_t c : top_classes(logits, static_cast<size_t>(std::max<int64_t>(options.top, 1))))
    prediction.top.emplace_back(state.classes.at(c), answers[c]);
  if (state.task.fields.empty()) return prediction;
  for (const size_t c : top_classes(logits, logits.size()))
    if (answers[c] >= thresholds[c]) prediction.labels.emplace_back(state.classes.at(c), answers[c]);
  return prediction;
}

/// Adds the image as the model saw it.
static void add_seen(const Tensor& pixels, size_t row, Prediction& prediction) {
  prediction.seen_height = pixels.size(1);
  prediction.seen_width = pixels.size(2);
  const auto bytes = static_cast<size_t>(pixels.elements() / pixels.size(0));
  const uint8_t* const image = pixels.data<uint8_t>() + row * bytes;
  prediction.pixels.assign(image, image + bytes);
}

bool Predictor::predict_batch(std::span<const ImageFile> files, int64_t rows,
                              const std::function<bool(const Prediction&)>& sink) {
  std::vector<Status> errors;
  SeenImages seen;
  const Tensor logits = impl_->batch_logits(files, rows, errors, &seen);
  const auto outputs = static_cast<size_t>(logits.elements() / logits.size(0));
  for (size_t i = 0; i < files.size(); ++i) {
    const std::span<const float> row(logits.data<float>() + i * outputs, outputs);
    Prediction prediction = impl_->prediction_of(files[i].path, errors[i].message(), row);
    if (!prediction.error.empty()) {
      prediction.error_code = errors[i].ok() ? ErrorCode::kNonfinite : errors[i].code();
    } else if (impl_->output() == engine::ModelOutput::kPixels) {
      add_seen(seen.pixels, i, prediction);
      impl_->add_mask(row, prediction);
      impl_->add_whole_mask(row, seen.maps[i], prediction);
    } else if (impl_->output() == engine::ModelOutput::kBoxes) {
      add_seen(seen.pixels, i, prediction);
      prediction.boxes =
          predicted_boxes(impl_->model.state, impl_->out_size, seen.maps[i], row, impl_->thresholds);
    }
    if (!sink(prediction)) return false;
  }
  return true;
}

namespace {

/// The tokens of `text`. At each position, the longest name that fits is used, so that characters of several bytes stay whole.
std::vector<int64_t> tokens_of(const std::string& text, const std::vector<std::string>& vocabulary) {
  std::vector<int64_t> tokens;
  for (size_t at = 0; at < text.size();) {
    int64_t found = -1;
    for (size_t i = 0; i < vocabulary.size(); ++i) {
      const bool longer = found < 0 || vocabulary[i].size() > vocabulary[static_cast<size_t>(found)].size();
      if (longer && !vocabulary[i].empty() && text.compare(at, vocabulary[i].size(), vocabulary[i]) == 0)
        found = static_cast<int64_t>(i);
    }
    if (found < 0) {
      refuse("generate", "the training text has no ",
             text == GenerateOptions().prompt
                 ? std::string("line breaks, which text begins with by default; give --prompt some of its "
                               "characters")
                 : concat(in_quotes(text.substr(at, std::max<size_t>(utf8_bytes(text, at), 1))), " (byte ",
                          at, " of --prompt); leave it out"));
    }
    tokens.push_back(found);
    at += vocabulary[static_cast<size_t>(found)].size();
  }
  return tokens;
}

/// A token drawn from softmax(logits / temperature), among the top_k likeliest.
int64_t draw(std::span<const float> logits, const GenerateOptions& options, RandomStream& random) {
  if (std::isnan(probabilities_of(logits).front()))
    throw Error(
        Status(ErrorCode::kNonfinite,
               "[generate] the model returns NaN or infinity, so no token has a probability; use another "
               "checkpoint"));
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (options.temperature <= 0) return order.front();
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < order.size())
    order.resize(static_cast<size_t>(options.top_k));
  const double largest = logits[static_cast<size_t>(order.front())];
  std::vector<double> weights;
  weights.reserve(order.size());
  for (const int64_t token : order)
    weights.push_back(portable_exp((logits[static_cast<size_t>(token)] - largest) / options.temperature));
  double left = random.uniform_double() * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order.back();
}

}  // namespace

void generate(const GenerateOptions& options, const std::function<bool(const std::string&)>& sink,
              const Registries& registries) {
  engine::set_engine_threads(options.threads > 0 ? options.threads : available_threads());
  const LoadedModel loaded =
      load_model({.weights = options.checkpoint}, registries, nullptr, BareFiles::kRefused);
  const int64_t length = loaded.state.arguments.length;
  if (length == 0) {
    refuse("generate", loaded.state.model, " takes images, not tokens; see dlpipe predict");
  }
  if (engine::graph::is_graph_file(options.checkpoint)) {
    refuse("generate", options.checkpoint, " is a compiled model, which takes ", length,
           " tokens at a time; give the run or the checkpoint that it was compiled from");
  }
  std::vector<int64_t> tokens = tokens_of(options.prompt, loaded.state.classes);
  if (tokens.empty()) refuse("generate", "--prompt is empty; give some text");
  if (!sink(options.prompt)) return;
  engine::ConstantCache constants = weights_as_constants(loaded.model->parameters());
  const engine::UseConstantCache packed_once(&constants);
  const engine::InferenceMode mode;
  const engine::UseAutocast autocast(dtype_of(loaded, ""));
  RandomStream random(options.seed, 0);
  for (int64_t i = 0; i < options.tokens; ++i) {
    const size_t seen = std::min(tokens.size(), static_cast<size_t>(length));
    const std::span<const int64_t> context = std::span(tokens).last(seen);
    const engine::Tensor ids = engine::Tensor::from(context, {1, static_cast<int64_t>(seen)});
    const engine::Tensor logits =
        engine::cast(engine::plain((*loaded.model)(ids)), DType::kF32).contiguous_copy();
    const auto classes = static_cast<size_t>(logits.size(1));
    const int64_t token = draw({logits.data<float>() + (seen - 1) * classes, classes}, options, random);
    tokens.push_back(token);
    if (!sink(loaded.state.classes.at(static_cast<size_t>(token)))) return;
  }
}

using formats::Json;

namespace {

/// RGB of the image as the model saw it, each pixel `times` wide and high.
std::vector<uint8_t> seen_rgb(const Prediction& prediction, int64_t times) {
  const int64_t height = prediction.seen_height, width = prediction.seen_width;
  const int64_t channels = static_cast<int64_t>(prediction.pixels.size()) / (height * width);
  std::vector<uint8_t> rgb;
  rgb.reserve(static_cast<size_t>(3 * height * width * times * times));
  for (int64_t y = 0; y < height * times; ++y) {
    for (int64_t x = 0; x < width * times; ++x) {
      const int64_t pixel = (y / times * width + x / times) * channels;
      for (int64_t c = 0; c < 3; ++c)
        rgb.push_back(prediction.pixels[static_cast<size_t>(pixel + (channels >= 3 ? c : 0))]);
    }
  }
  return rgb;
}

/// The image with each class of `prediction.mask` in its colour.
std::vector<uint8_t> tinted(const Prediction& prediction) {
  std::vector<uint8_t> shown = seen_rgb(prediction, 1);
  for (size_t i = 0; i < prediction.mask.size(); ++i) {
    if (prediction.mask[i] == 0) continue;
    const augment::Pixel color = color_of_class(prediction.mask[i] - 1u);
    for (size_t c = 0; c < 3; ++c) shown[3 * i + c] = static_cast<uint8_t>((shown[3 * i + c] + color[c]) / 2);
  }
  return shown;
}

/// Draws frames with names and scores. The best box is drawn last, so that nothing covers it.
void draw_boxes(const ImageView& image, const std::vector<PredictedBox>& boxes, int64_t times) {
  for (auto box = boxes.rbegin(); box != boxes.rend(); ++box) {
    const auto side = [&](size_t i) {
      return static_cast<int>(std::lround(box->seen[i] * static_cast<double>(times)));
    };
    const augment::Pixel color = color_of_class(box->number);
    draw_frame(image, side(0), side(1), side(2), side(3), color);
    draw_text(image, std::max(side(0), 0), std::max(side(1) - kTextHeight, 0),
              concat(drawable_name(box->name, box->number), " ", fixed(box->score, 2)), color);
  }
}

}  // namespace

Result<std::string> PredictionDrawer::draw(const Prediction& prediction) {
  if (prediction.pixels.empty()) return std::string();
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  const std::filesystem::path folder = std::filesystem::path(prediction.path).parent_path();
  if (prediction.path != "-" && std::filesystem::equivalent(directory_, folder.empty() ? "." : folder, error))
    return misuse("predict", printable(directory_),
                  " contains the images, and drawings with the same names would overwrite them; give another "
                  "folder to draw to");
  std::string name =
      prediction.path == "-" ? "stdin" : std::filesystem::path(prediction.path).stem().string();
  constexpr const char *kDrawing = ".png", *kMask = ".mask.png";
  const bool has_mask = !prediction.mask.empty();
  const auto is_there = [&](const std::string& file) {
    return taken_.contains(file) || std::filesystem::exists(concat(directory_, "/", file), error);
  };
  const auto is_taken = [&](const std::string& one) {
    return is_there(one + kDrawing) || (has_mask && is_there(one + kMask));
  };
  const std::string own = name;
  int& number =
      numbers_.try_emplace(own, 1).first->second;  // kept, so that many of one name do not search from 1
  while (is_taken(name)) name = concat(own, "-", ++number);
  taken_.insert(name + kDrawing);
  if (has_mask) taken_.insert(name + kMask);
  const auto write = [&](const std::string& ending, const ConstImageView& view) -> Status {
    DLPIPE_ASSIGN_OR_RETURN(const auto png, data::encode_png(view));
    return formats::write_file(concat(directory_, "/", name, ending),
                               {reinterpret_cast<const char*>(png.data()), png.size()});
  };
  const int height = static_cast<int>(prediction.seen_height),
            width = static_cast<int>(prediction.seen_width);
  std::string path = concat(directory_, "/", name, kDrawing);
  if (has_mask) {
    const std::vector<uint8_t> shown = tinted(prediction);
    DLPIPE_RETURN_IF_ERROR(write(kDrawing, {shown.data(), width, height, 3, ptrdiff_t{width} * 3}));
    DLPIPE_RETURN_IF_ERROR(write(kMask, {prediction.mask.data(), width, height, 1, ptrdiff_t{width}}));
    return path;
  }
  constexpr int kReadable = 320;  // pixels along the longer side, so that names can be read
  const int times = std::max(1, kReadable / std::max(width, height));
  std::vector<uint8_t> shown = seen_rgb(prediction, times);
  const ImageView view{shown.data(), width * times, height * times, 3, ptrdiff_t{width} * times * 3};
  draw_boxes(view, prediction.boxes, times);
  DLPIPE_RETURN_IF_ERROR(write(kDrawing, view));
  return path;
}

static constexpr const char* kThresholdForms =
    "; give a number from 0 to 1, NAME=T,NAME=T, or a file of `dlpipe eval --report --json`";

Status read_thresholds(const std::string& text, PredictOptions& options) {
  const auto check = [&](std::string_view number, double& threshold) -> Status {
    if (parse_double(number, &threshold) && threshold >= 0 && threshold <= 1) return {};
    return misuse("predict", "--threshold ", printable(text), kThresholdForms);
  };
  double number = 0;
  if (parse_double(text, &number)) return check(text, options.threshold.emplace());
  if (text.find('=') != std::string::npos) {
    for (const std::string& part : assignments_in(text)) {
      const size_t equals = part.rfind('=');
      DLPIPE_RETURN_IF_ERROR(
          check(equals == std::string::npos ? "" : std::string_view(part).substr(equals + 1), number));
      options.thresholds.emplace_back(trim(std::string_view(part).substr(0, equals)), number);
    }
    return {};
  }
  std::error_code error;
  if (!std::filesystem::exists(text, error))
    return misuse("predict", "--threshold ", printable(text), " is neither a number nor a file that exists",
                  kThresholdForms);
  DLPIPE_ASSIGN_OR_RETURN(const std::string file, formats::read_file(text));
  const Result<Json> parsed = Json::parse(file);
  const Json evaluation = parsed.ok() ? *parsed : Json();
  for (const Json& label : evaluation["report"]["outputs"].items()) {
    const Json& threshold = label["best threshold"];
    if (threshold.is_number())
      options.thresholds.emplace_back(label["name"].as_string(), threshold.as_double());
  }
  if (options.thresholds.empty())
    return misuse(
        "predict", "--threshold ", printable(text),
        ": the file has no thresholds; `dlpipe eval --report --json` of a multi-label model writes some");
  return {};
}

Json to_json(const Evaluation& evaluation) {
  const EvalReport& report = evaluation.report;
  const ModelState& state = evaluation.model.state;
  Json json = Json::object({{"checkpoint", evaluation.model.path},
                            {"model", state.model},
                            {"data", evaluation.data},
                            {"step", evaluation.model.step < 0 ? Json() : Json(evaluation.model.step)},
                            {"val_augment", state.val_augment},
                            {"tta", state.tta},
                            {"samples", report.samples},
                            {"subset", evaluation.subset},
                            {"dropped", report.dropped},
                            {"loss", report.loss}});
  Json metrics = Json::object();
  for (const auto& [name, value] : report.metrics) metrics.set(name, value);
  json.set("metrics", std::move(metrics));
  json.set("samples_per_s", static_cast<double>(report.samples) / report.seconds);
  json.set("report", Json());
  if (evaluation.classes) json.set("report", to_json(*evaluation.classes, state.classes));
  json.set("task", state.task.name);
  json.set("masks", state.task.name != "segment" ? Json()
                    : evaluation.has_whole_masks ? Json("original")
                                                 : Json("resized"));
  if (evaluation.columns.empty()) return json;
  Json outputs = Json::array();
  for (const auto& [name, figures] : evaluation.figures) {
    Json row = Json::object({{"name", name}});
    for (size_t i = 0; i < figures.size(); ++i)
      row.set(evaluation.columns[i], std::isnan(figures[i]) ? Json() : Json(figures[i]));
    outputs.push_back(std::move(row));
  }
  return json.set("report", Json::object({{"outputs", std::move(outputs)}}));
}

static Json boxes_json(const std::vector<PredictedBox>& boxes) {
  Json list = Json::array();
  for (const PredictedBox& box : boxes)
    list.push_back(Json::object({{"class", box.name},
                                 {"score", box.score},
                                 {"box", Json(Json::Array(box.box.begin(), box.box.end()))}}));
  return list;
}

Json to_json(const SampleAnswer& answer, const std::vector<std::string>& classes) {
  if (answer.boxes)
    return Json::object({{"id", answer.id}})
        .set_path("path", answer.path)
        .set("boxes", boxes_json(*answer.boxes));
  if (!answer.answers.empty()) {
    Json predicted = Json::object(), target = Json::object();
    for (size_t k = 0; k < answer.answers.size(); ++k) {
      predicted.set(classes[k], answer.answers[k]);
      target.set(classes[k], answer.targets[k]);
    }
    return Json::object({{"id", answer.id}})
        .set_path("path", answer.path)
        .set("predicted", std::move(predicted))
        .set("target", std::move(target));
  }
  Json top = Json::array();
  for (size_t i = 0; i < answer.top.size(); ++i) {
    top.push_back(
        Json::object({{"class", classes[answer.top[i]]}, {"probability", answer.probabilities[i]}}));
  }
  const bool is_decided = !answer.top.empty();
  return Json::object({{"id", answer.id}})
      .set_path("path", answer.path)
      .set("label", classes[static_cast<size_t>(answer.label)])
      .set("predicted", is_decided ? Json(classes[answer.top.front()]) : Json())
      .set("probability", is_decided ? Json(answer.probabilities.front()) : Json())
      .set("top", std::move(top))
      .set("loss", answer.loss);
}

namespace {

Json pairs_json(const std::vector<std::pair<std::string, double>>& pairs) {
  Json list = Json::array();
  for (const auto& [name, probability] : pairs)
    list.push_back(Json::object({{"class", name}, {"probability", probability}}));
  return list;
}

/// The JSON for a task other than classify.
Json outputs_json(const Prediction& prediction) {
  Json json = Json::object();
  json.set_path("path", prediction.path)
      .set("error", prediction.error.empty() ? Json() : Json(prediction.error));
  if (prediction.task == "multilabel")
    return json.set("labels", pairs_json(prediction.labels)).set("top", pairs_json(prediction.top));
  if (prediction.task == "detect") {
    return json.set("boxes", boxes_json(prediction.boxes));
  }
  Json values = Json::object();
  for (const auto& [name, value] : prediction.values) values.set(name, value);
  return json.set(prediction.task == "segment" ? "shares" : "values", std::move(values));
}

}  // namespace

Json to_json(const Prediction& prediction, const std::string& drawing) {
  if (prediction.task != "classify") {
    Json json = outputs_json(prediction);
    if (!drawing.empty()) json.set_path("drawing", drawing);
    return json;
  }
  Json json = Json::object();
  json.set_path("path", prediction.path)
      .set("error", Json())
      .set("class", Json())
      .set("probability", Json())
      .set("top", Json::array());
  if (!prediction.error.empty()) return json.set("error", prediction.error);
  return json.set("class", prediction.top.front().first)
      .set("probability", prediction.top.front().second)
      .set("top", pairs_json(prediction.top));
}

}  // namespace dlpipe::run
