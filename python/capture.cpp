// Models that torch_capture.py traced: written as captured models, and run for its comparison with PyTorch.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/graph.h"
#include "dlpipe/models.h"
#include "dlpipe/onnx.h"
#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"
#include "engine/models/graph_module.h"
#include "python/calls.h"
#include "python/module.h"
#include "python/values.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

using engine::Tensor;
using Names = std::vector<std::string>;
using Images = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Labels = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// What `work` throws as a Status, for unlocked().
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
                    const std::map<std::string, std::string>& aliases, const std::string& name,
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

/// A captured model from its own weights, as training sees it.
class CapturedModel {
 public:
  explicit CapturedModel(const std::string& path) {
    engine::graph::Graph graph = value_or_throw(engine::graph::read_graph(path));
    const engine::ImageGraph images = engine::image_graph(graph);
    trainable_ = engine::trainable_graph(std::move(graph));
    engine::ModelArguments arguments;
    arguments.classes = images.classes;
    arguments.channels = images.channels;
    arguments.height = images.height;
    arguments.width = images.width;
    model_ = trainable_.record->build(arguments);
    model_->load_state_dict(trainable_.weights);
  }

  /// Logits of images [N,C,H,W]: [N,classes], or [N,H,W,classes].
  Tensor forward(const Images& images, bool training) {
    model_->train(training);
    const engine::InferenceMode mode;
    return engine::plain((*model_)(pixels(images)));
  }

  /// One step of SGD on a label for each row of logits; the loss before it.
  double step(const Images& images, const Labels& labels, double lr) {
    model_->train();
    engine::random_state() = {0, ++steps_, 0, {}};
    Tensor target = Tensor::empty({static_cast<int64_t>(labels.size())}, DType::kI64);
    target.copy_from_host(labels.data(), labels.size() * sizeof(int64_t));
    model_->zero_grad();
    const Tensor logits = engine::plain((*model_)(pixels(images)));
    const int64_t classes = logits.size(-1);
    const Tensor loss =
        engine::cross_entropy(engine::reshape(logits, {logits.elements() / classes, classes}), target);
    loss.backward();
    const engine::NoGrad no_grad;
    for (engine::NamedTensor& one : model_->parameters()) {
      if (!one.tensor.grad().defined()) continue;
      const Tensor grad = one.tensor.grad().contiguous_copy();
      float* const to = one.tensor.data<float>();
      for (int64_t i = 0; i < grad.elements(); ++i) to[i] -= static_cast<float>(lr) * grad.data<float>()[i];
      one.tensor.bump_version();
    }
    return loss.item();
  }

  const engine::Module& model() const { return *model_; }

 private:
  static Tensor pixels(const Images& images) {
    Shape shape;
    for (size_t i = 0; i < 4; ++i) shape.push_back(static_cast<int64_t>(images.shape(i)));
    Tensor planes = Tensor::empty(shape);
    planes.copy_from_host(images.data(), images.size() * sizeof(float));
    return engine::transpose(planes, {0, 2, 3, 1}).contiguous_copy();
  }

  engine::TrainableGraph trainable_;
  std::shared_ptr<engine::Module> model_;
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

}  // namespace

void bind_capture(nb::module_& module) {
  module.def("write_captured", write_captured, nb::arg("onnx"), nb::arg("parameters"), nb::arg("buffers"),
             nb::arg("aliases"), nb::arg("name"), nb::arg("path"));
  nb::class_<CapturedModel>(module, "CapturedModel")
      .def(
          "__init__",
          [](CapturedModel* self, const nb::bytes& path) {
            const std::string file = to_path(path);
            unlocked([&]() -> Status { return status_of([&] { new (self) CapturedModel(file); }); });
          },
          nb::arg("path"))
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
      .def("gradients", [](const CapturedModel& self) { return arrays_of(self.model().parameters(), true); })
      .def("state", [](const CapturedModel& self) { return arrays_of(self.model().state_dict(), false); });
}

}  // namespace dlpipe::python
