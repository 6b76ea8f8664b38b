// Models that torch_capture.py traced: written as captured models, and run for its comparison with PyTorch.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/config.h"
#include "dlpipe/error.h"
#include "dlpipe/graph.h"
#include "dlpipe/models.h"
#include "dlpipe/onnx.h"
#include "dlpipe/ops.h"
#include "dlpipe/optim.h"
#include "dlpipe/tensor.h"
#include "engine/models/graph_module.h"
#include "python/calls.h"
#include "python/module.h"
#include "python/values.h"
#include "run/config/values.h"
#include "run/input/box_coding.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

using engine::Tensor;
using Names = std::vector<std::string>;
using Images = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Labels = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Boxes = nb::ndarray<const float, nb::shape<-1, 4>, nb::c_contig, nb::device::cpu>;

/// Runs `work` and returns what it throws as a Status, for unlocked().
template <class Work>
Status status_of(const Work& work) {
  try {
    work();
    return {};
  } catch (...) {
    return status_from_current_exception("capture");
  }
}

void write_captured(const nb::bytes& onnx, const Names& parameters, const Names& buffers,
                    const std::map<std::string, std::string>& aliases,
                    const std::map<std::string, std::string>& metadata, const std::string& name,
                    const nb::bytes& path) {
  const std::string file = to_path(path);
  unlocked([&]() -> Status {
    return status_of([&] {
      const engine::onnx::Model model =
          value_or_throw(engine::onnx::parse_model({onnx.c_str(), onnx.size()}, ""));
      engine::onnx::ImportOptions options;
      options.training = true;
      for (const std::string& one : parameters) options.state.emplace(one, true);
      for (const std::string& one : buffers) options.state.emplace(one, false);
      engine::graph::Graph graph = engine::onnx::import_model(model, options);
      graph.name = name;
      graph.aliases = aliases;
      graph.metadata = metadata;
      engine::trainable_graph(graph);  // refuses what can't be trained
      throw_if_error(engine::graph::write_graph(file, graph));
    });
  });
}

nb::any array_of(const Tensor& tensor) {
  const auto kept = std::make_shared<Tensor>(tensor.detach().contiguous_copy());
  ArrayForm form;
  form.dtype = kept->dtype();
  for (const int64_t size : kept->shape()) form.shape.push_back(static_cast<size_t>(size));
  return make_array(Framework::kNumpy, kept->raw(), form, kept);
}

/// A captured model with its own weights, as training in `dtype` (f32, bf16) computes it.
class CapturedModel {
 public:
  CapturedModel(const std::string& path, const std::string& dtype)
      : dtype_(value_or_throw(run::training_dtype(dtype, cpu_device()))) {
    engine::graph::Graph graph = value_or_throw(engine::graph::read_graph(path));
    images_ = engine::image_graph(graph);
    trainable_ = engine::trainable_graph(std::move(graph));
    engine::ModelArguments arguments;
    arguments.classes = images_.classes;
    arguments.channels = images_.channels;
    arguments.height = images_.height;
    arguments.width = images_.width;
    model_ = trainable_.record->build(arguments);
    model_->load_state_dict(trainable_.weights);
    optimizer_ = value_or_throw(engine::find_optimizer("sgd"))->build(model_->parameters(), {.momentum = 0});
  }

  /// Logits of images [N,C,H,W]: [N,classes], or [N,H,W,classes].
  Tensor forward(const Images& images, bool training) {
    model_->train(training);
    const engine::InferenceMode mode;
    return engine::plain((*model_)(pixels(images)));
  }

  /// Runs one step of SGD with a label for each row of logits; returns the loss before it.
  double step(const Images& images, const Labels& labels, double lr) {
    Tensor target = Tensor::empty({static_cast<int64_t>(labels.size())}, DType::kI64);
    target.copy_from_host(labels.data(), labels.size() * sizeof(int64_t));
    return step_with(images, lr, [&](const Tensor& outputs) {
      const Tensor logits = engine::plain(outputs);
      const int64_t classes = logits.size(-1);
      return engine::cross_entropy(engine::reshape(logits, {logits.elements() / classes, classes}), target);
    });
  }

  /// The same for objects in images, with the loss of the model's box coding; `offsets` as in run::BoxObjects.
  double step_boxes(const Images& images, const Boxes& boxes, const Labels& labels, const Labels& offsets,
                    double lr) {
    const run::BoxRows rows = box_rows(images);
    run::BoxObjects objects;
    for (size_t i = 0; i < labels.size(); ++i)
      objects.all.push_back({{boxes(i, 0), boxes(i, 1), boxes(i, 2), boxes(i, 3)}, labels.data()[i], false});
    objects.offsets.assign(offsets.data(), offsets.data() + offsets.size());
    const std::vector<float> weights(images.shape(0), 1.0f);
    const run::BoxTarget target = run::box_target(rows, objects, weights);
    const run::LossRecord& loss =
        *value_or_throw(run::find_loss(value_or_throw(run::find_box_coding(rows.coding))->loss));
    return step_with(images, lr, [&](const Tensor& outputs) {
      return loss.compute(outputs, target.rows, target.weight, {});
    });
  }

  /// The boxes of each image.
  std::vector<std::vector<run::FoundBox>> detect(const Images& images) {
    const run::BoxRows rows = box_rows(images);
    const Tensor outputs = forward(images, false).contiguous_copy();
    const int64_t each = outputs.elements() / outputs.size(0);
    std::vector<std::vector<run::FoundBox>> found;
    for (int64_t i = 0; i < outputs.size(0); ++i)
      found.push_back(run::find_boxes(rows, {outputs.data<float>() + i * each, static_cast<size_t>(each)}));
    return found;
  }

  const engine::Module& model() const { return *model_; }

 private:
  template <class LossOf>
  double step_with(const Images& images, double lr, const LossOf& loss_of) {
    model_->train();
    engine::random_state() = {0, ++steps_, 0, {}};
    model_->zero_grad();
    const Tensor loss = [&] {
      const engine::UseAutocast autocast(dtype_);
      return loss_of((*model_)(pixels(images)));
    }();
    loss.backward();
    const engine::NoGrad no_grad;
    optimizer_->step(lr);
    return loss.item();
  }

  run::BoxRows box_rows(const Images& images) const {
    if (!images_.boxes) refuse("capture", "the model is not a detector");
    return {*images_.boxes, static_cast<int64_t>(images.shape(2)), static_cast<int64_t>(images.shape(3)),
            images_.classes};
  }

  static Tensor pixels(const Images& images) {
    Shape shape;
    for (size_t i = 0; i < 4; ++i) shape.push_back(static_cast<int64_t>(images.shape(i)));
    Tensor planes = Tensor::empty(shape);
    planes.copy_from_host(images.data(), images.size() * sizeof(float));
    return engine::transpose(planes, {0, 2, 3, 1}).contiguous_copy();
  }

  DType dtype_;
  engine::ImageGraph images_;
  engine::TrainableGraph trainable_;
  std::shared_ptr<engine::Module> model_;
  std::unique_ptr<engine::Optimizer> optimizer_;
  int64_t steps_ = 0;
};

nb::dict arrays_of(const std::vector<engine::NamedTensor>& tensors, bool gradients) {
  nb::dict dict;
  for (const engine::NamedTensor& one : tensors) {
    const Tensor tensor = gradients ? one.tensor.grad() : one.tensor;
    if (tensor.defined()) dict[one.name.c_str()] = array_of(engine::plain(tensor));
  }
  return dict;
}

/// Boxes [M,4], labels [M] and scores [M].
nb::tuple arrays_of(const std::vector<run::FoundBox>& found) {
  const auto count = static_cast<int64_t>(found.size());
  const Tensor boxes = Tensor::empty({count, 4}), labels = Tensor::empty({count}, DType::kI64),
               scores = Tensor::empty({count});
  for (size_t i = 0; i < found.size(); ++i) {
    std::copy_n(found[i].box.data(), 4, boxes.data<float>() + 4 * i);
    labels.data<int64_t>()[i] = found[i].label;
    scores.data<float>()[i] = found[i].score;
  }
  return nb::make_tuple(array_of(boxes), array_of(labels), array_of(scores));
}

}  // namespace

void bind_capture(nb::module_& module) {
  module.def("write_captured", write_captured, nb::arg("onnx"), nb::arg("parameters"), nb::arg("buffers"),
             nb::arg("aliases"), nb::arg("metadata"), nb::arg("name"), nb::arg("path"));
  nb::class_<CapturedModel>(module, "CapturedModel")
      .def(
          "__init__",
          [](CapturedModel* self, const nb::bytes& path, const std::string& dtype) {
            const std::string file = to_path(path);
            unlocked([&]() -> Status { return status_of([&] { new (self) CapturedModel(file, dtype); }); });
          },
          nb::arg("path"), nb::arg("dtype") = "f32")
      .def(
          "forward",
          [](CapturedModel& self, const Images& images, bool training) {
            Tensor answer;
            unlocked([&]() -> Status { return status_of([&] { answer = self.forward(images, training); }); });
            return array_of(answer);
          },
          nb::arg("images"), nb::arg("training"))
      .def(
          "step",
          [](CapturedModel& self, const Images& images, const Labels& labels, double lr) {
            double loss = 0;
            unlocked([&]() -> Status { return status_of([&] { loss = self.step(images, labels, lr); }); });
            return loss;
          },
          nb::arg("images"), nb::arg("labels"), nb::arg("lr"))
      .def(
          "step_boxes",
          [](CapturedModel& self, const Images& images, const Boxes& boxes, const Labels& labels,
             const Labels& offsets, double lr) {
            double loss = 0;
            unlocked([&]() -> Status {
              return status_of([&] { loss = self.step_boxes(images, boxes, labels, offsets, lr); });
            });
            return loss;
          },
          nb::arg("images"), nb::arg("boxes"), nb::arg("labels"), nb::arg("offsets"), nb::arg("lr"))
      .def(
          "detect",
          [](CapturedModel& self, const Images& images) {
            std::vector<std::vector<run::FoundBox>> found;
            unlocked([&]() -> Status { return status_of([&] { found = self.detect(images); }); });
            nb::list list;
            for (const std::vector<run::FoundBox>& one : found) list.append(arrays_of(one));
            return list;
          },
          nb::arg("images"))
      .def("gradients", [](const CapturedModel& self) { return arrays_of(self.model().parameters(), true); })
      .def("state", [](const CapturedModel& self) { return arrays_of(self.model().state_dict(), false); });
}

}  // namespace dlpipe::python
