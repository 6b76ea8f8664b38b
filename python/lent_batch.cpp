#include "dlpipe/python/lent_batch.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/io/data/ragged_field.h"
#include "dlpipe/python/errors.h"
#include "dlpipe/python/waiting.h"

namespace nb = nanobind;

namespace dlpipe::python {

LentBatch::LentBatch(std::shared_ptr<pipeline::Feed::Lent> lent, const BatchForm& form)
    : lent_(std::move(lent)), form_(form) {
  const Batch& made = batch();
  if (made.mixed.empty() || form.label_field < 0) return;
  const auto label_of = [&](int64_t i) {  // as in the batch, which may be on a device
    return value_or_throw(form_.dataset->header(made.sample_ids[static_cast<size_t>(i)])).label;
  };
  for (int64_t i = 0; i < made.count; ++i) {
    const SampleMix& mix = made.mixed[static_cast<size_t>(i)];
    partner_labels_.push_back(label_of(mix.partner < 0 ? i : mix.partner));
    own_weights_.push_back(mix.partner < 0 ? 1.0f : mix.lambda);
  }
}

void LentBatch::read_on(uintptr_t stream, int device) const {
  Device* reader = form_.device != nullptr ? form_.device : form_.pinned_for;
  if (reader == nullptr) return;
  if (device >= 0) reader = value_or_throw(cuda_device(device));  // stream 0 is another one on each
  auto borrowed = value_or_throw(reader->borrow_stream(reinterpret_cast<void*>(stream)));
  throw_if_error(lent_->read_on(std::move(borrowed), reader));
}

namespace {

/// As the loader's consumer has its arrays. `memory` keeps the data, the batch's own or other.
nb::object hand_out(std::byte* data, const ArrayForm& form, const LentBatch& batch, Memory memory) {
  const BatchForm& wanted = batch.form();
  if (wanted.device == nullptr) return make_array(wanted.framework, data, form, std::move(memory));
  const auto read_on = [batch](int64_t stream) { batch.read_on(static_cast<uintptr_t>(stream)); };
  nb::object array = make_dlpack(data, form, std::move(memory), wanted.device, read_on);
  const PythonCall call;
  if (wanted.framework == Framework::kTorch) return nb::module_::import_("torch").attr("from_dlpack")(array);
  if (wanted.framework == Framework::kJax)
    return nb::module_::import_("jax.dlpack").attr("from_dlpack")(array);
  return array;
}

/// What a sample takes at most in the fields that loops collect, such as labels and numbers: these are copied, so that who
/// keeps them keeps no pictures.
constexpr size_t kCopiedBytes = 64;

struct Copy {
  std::byte* data;
  Memory memory;
};

template <class T>
Copy copy_of(std::span<const T> values) {
  constexpr std::align_val_t kAlignment{64};  // JAX copies what lies otherwise once more
  const std::span<const std::byte> bytes = std::as_bytes(values);
  auto* const data = static_cast<std::byte*>(::operator new(bytes.size(), kAlignment));
  std::copy(bytes.begin(), bytes.end(), data);
  return {data, Memory(data, [](const void* p) { ::operator delete(const_cast<void*>(p), kAlignment); })};
}

nb::tuple field_arrays(const LentBatch& self) {
  const BatchForm& wanted = self.form();
  const int64_t count = self.batch().count;
  const auto on_host = [&](void* data, const ArrayForm& form, const Memory& memory) {
    return make_array(wanted.framework == Framework::kDlpack ? Framework::kNumpy : wanted.framework, data,
                      form, memory);
  };
  nb::list arrays;
  for (const size_t index : wanted.order) {
    const BatchField& field = self.batch().fields[index];
    const bool is_image = static_cast<int>(index) == wanted.image_field;
    if (field.spec->ragged) {
      const auto used = field.offsets.first(static_cast<size_t>(count) + 1);
      const ArrayForm rows = dense_form(field.spec->dtype, used.back(), field.spec->shape);
      arrays.append(nb::make_tuple(
          on_host(field.data, rows, self.memory()),
          on_host(const_cast<int64_t*>(used.data()), dense_form(DType::kI64, count + 1, {}), self.memory())));
      continue;
    }
    // One value per sample is [batch], as PyTorch collates it.
    const bool is_single = field.spec->shape.rank() == 1 && field.spec->shape[0] == 1;
    ArrayForm form = dense_form(field.spec->dtype, count, is_single ? Shape() : field.spec->shape);
    if (is_image && wanted.channels_first) form = channels_first(form);
    const size_t bytes = field.spec->sample_bytes();
    const bool is_copied =
        !is_image && bytes <= kCopiedBytes && wanted.device == nullptr && wanted.pinned_for == nullptr;
    if (is_copied) {
      const Copy copy = copy_of(std::span<const std::byte>(field.data, static_cast<size_t>(count) * bytes));
      arrays.append(hand_out(copy.data, form, self, copy.memory));
    } else {
      arrays.append(hand_out(field.data, form, self, self.memory()));
    }
  }
  if (!self.own_weights().empty()) {
    const Copy labels = copy_of(std::span(self.partner_labels()));
    const Copy weights = copy_of(std::span(self.own_weights()));
    arrays.append(on_host(labels.data, dense_form(DType::kI64, count, {}), labels.memory));
    arrays.append(on_host(weights.data, dense_form(DType::kF32, count, {}), weights.memory));
  }
  return nb::tuple(arrays);
}

/// For NumPy, not to be written: [count] of what the batch says of each sample.
template <class T>
nb::any constant(std::span<const T> values, DType dtype, int64_t count) {
  const Copy copy = copy_of(values.first(static_cast<size_t>(count)));
  return make_constant_array(copy.data, dense_form(dtype, count, {}), copy.memory);
}

/// (bytes, offsets) of a field without a fixed size as the dataset has it.
nb::tuple ragged(const LentBatch& self, const std::string& field) {
  const Batch& batch = self.batch();
  data::RaggedField read = unlocked([&] {
    return data::read_ragged_field(*self.form().dataset,
                                   batch.sample_ids.first(static_cast<size_t>(batch.count)), field);
  });
  return nb::make_tuple(nb::bytes(read.bytes.data(), read.bytes.size()), std::move(read.offsets));
}

nb::list substitutions(const LentBatch& self) {
  nb::list list;
  for (const Substitution& one : self.batch().substitutions) {
    nb::dict entry;
    entry["position"] = one.position;
    entry["bad_sample"] = one.bad_sample;
    entry["used_sample"] = one.used_sample;
    entry["reason"] = to_text(one.reason);
    list.append(entry);
  }
  return list;
}

}  // namespace

void bind_lent_batch(nb::module_& module) {
  nb::class_<LentBatch>(module, "LentBatch")
      .def("arrays", field_arrays)
      .def_prop_ro("epoch", [](const LentBatch& self) { return self.batch().epoch; })
      .def_prop_ro("index", [](const LentBatch& self) { return self.batch().index; })
      .def_prop_ro("last_in_epoch", [](const LentBatch& self) { return self.batch().last_in_epoch; })
      .def_prop_ro("count", [](const LentBatch& self) { return self.batch().count; })
      .def_prop_ro("chain", [](const LentBatch& self) { return self.batch().chain; })
      .def_prop_ro("sample_ids",
                   [](const LentBatch& self) {
                     return constant<int64_t>(self.batch().sample_ids, DType::kI64, self.batch().count);
                   })
      .def_prop_ro("weight",
                   [](const LentBatch& self) {
                     return constant<float>(self.batch().weight, DType::kF32, self.batch().count);
                   })
      .def_prop_ro("substitutions", substitutions)
      .def("read_on", &LentBatch::read_on, nb::arg("stream"), nb::arg("device") = -1)
      .def("ragged", ragged, nb::arg("field"));
}

}  // namespace dlpipe::python
