// One op: its shape rule, what autocast does with it, what it saves, and its sample inputs, in one record;
// its kernels, one file of the same name per backend. `apply` is the only way an op runs.
//
// Adding one: ops/NAME.cpp defines `extern const OpRecord NAME_op;` and the public function declared in
// ops/ops.h. An elementwise op has its formula in ops/NAME.h, and `dlpipe_register(op NAME ELEMENTWISE)`
// generates its kernels. Any other has a file NAME.cpp in reference/ with `extern const Kernels
// NAME_reference;` (plain loops, f32 and f64), one in cpu/ with NAME_cpu (fast; f32 and, where it has one,
// bf16), and `dlpipe_register(op NAME BACKENDS reference cpu)`. The record's checks run by themselves.
//
// Kernels see plain contiguous tensors, or a layout that the record lists. They may be called from one thread
// at a time for one graph and parallelise inside with parallel.h. They throw dlpipe::Error and
// nothing else.
#pragma once

#include <any>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "dlpipe/base/registry.h"
#include "dlpipe/base/scoped_value.h"
#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

/// Of an op that has no attributes.
struct NoAttrs {};

/// An op's attributes: a plain struct of its own (Conv2dAttrs...), copied into the graph.
class Attrs {
 public:
  Attrs() : value_(NoAttrs{}) {}
  template <class T>
  Attrs(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design
  /// The struct itself. Error (kMisuse) that names both types where it is another one.
  template <class T>
  const T& as() const {
    if (const T* const value = std::any_cast<T>(&value_); value != nullptr) return *value;
    refuse_type(typeid(T));
  }
  /// Whether the struct is a T.
  template <class T>
  bool is() const {
    return std::any_cast<T>(&value_) != nullptr;
  }

 private:
  [[noreturn]] void refuse_type(const std::type_info& expected) const;
  std::any value_;
};

/// What autocast to a low precision does with an op's floating inputs.
enum class Autocast : uint8_t {
  kLow,     // runs in the low dtype (convolution, matmul)
  kF32,     // runs in f32 (losses, softmax, norms' statistics)
  kFollow,  // takes what comes; mixed inputs go to the widest, bf16 beside f16 to f32
  kWidest,  // as kFollow, and its kernels copy bytes: the reference takes low dtypes, too (concat)
  kAsIs,    // takes what comes and mixes it on purpose (batch_norm: low images beside f32 parameters)
};

/// Inputs of one check of an op: specs, values are drawn from (seed, uniform in [low, high)).
struct OpSample {
  std::string name;
  std::vector<TensorSpec> inputs;
  Attrs attrs;
  double low = -1.0;
  double high = 1.0;
  /// Values of integer inputs are drawn in [0, int_high).
  int64_t int_high = 4;
};

struct Tolerance {
  double relative = 1e-5;
  double absolute = 1e-6;
  const char* reason = "";
};

struct ForwardArgs {
  std::span<const Tensor> inputs;  // an absent optional input is undefined
  std::span<Tensor> outputs;       // allocated to the shape rule's specs; hidden ones last
  const Attrs& attrs;
};
struct BackwardArgs {
  std::span<const Tensor> inputs;        // only those that the record saves are defined
  std::span<const Tensor> outputs;       // likewise
  std::span<const Tensor> grad_outputs;  // of the visible outputs; undefined means zero
  /// Undefined where not wanted, else allocated: write all of it, or put another tensor in its place.
  std::span<Tensor> grad_inputs;
  const Attrs& attrs;
  std::span<const TensorSpec> input_specs = {};  // of all inputs as the forward kernel saw them, saved or not
};

/// Which memory layout an op runs in on a fast backend: its image inputs are reordered to `inputs`, its image
/// outputs are allocated in `outputs`.
struct LayoutChoice {
  Layout inputs = Layout::kPlain;
  Layout outputs = Layout::kPlain;
};

struct Kernels {
  void (*forward)(const ForwardArgs& args) = nullptr;
  void (*backward)(const BackwardArgs& args) = nullptr;  // null: no gradient
  /// Whether this backend can do it; null: every spec that passes the shape rule. Where false, the reference
  /// runs.
  bool (*supports)(std::span<const TensorSpec> inputs, const Attrs& attrs) = nullptr;
  /// Which kernel these inputs get and, where it isn't the fastest there is, why: for people. Null: there is
  /// but one.
  std::string (*explain)(std::span<const TensorSpec> inputs, const Attrs& attrs, bool backward) = nullptr;
  /// Where the record's `fused` names a second op: this backend's kernels of that one, which take what these
  /// do.
  const Kernels* (*fused)(const Attrs& attrs) = nullptr;
  /// The layouts that suit these kernels, given the inputs as they come (a pure function of specs and ISA).
  /// Null: the record's choice. Asked of the cpu's kernels only; the other backends see plain tensors.
  LayoutChoice (*choose_layout)(std::span<const TensorSpec> inputs, const Attrs& attrs) = nullptr;
  /// Whether answers are the same bits on every instruction set of the host; check_op (tests/engine) holds the
  /// cpu's kernels to it. Where not, answers of two instruction sets are within the record's tolerances.
  bool same_bits_on_every_isa = true;
};

constexpr uint32_t bit(int i) {
  return 1u << i;
}

struct AttrForm;  // core/attr_form.h

struct OpRecord {
  const char* name;
  /// How the attributes are listed and made from a list: for graphs, which are printed, compared and written to
  /// files. Null: the op has no attributes, or those can't be written down, and then no graph holds the op.
  const AttrForm* attr_form = nullptr;
  /// How many inputs a call has: the first `least` are there, the others may be undefined or left out.
  static constexpr int kMostInputs = 32;
  struct InputCount {
    uint8_t least = 1;
    uint8_t most = 1;
  };
  InputCount input_count = {};
  /// Specs of all outputs, hidden ones (kept for backward only) after the visible. Throws Error "[name]
  /// expected ..., got ...; ..." on bad input. An undefined input has rank 0 and elements() == 1: `defined`
  /// tells.
  std::vector<TensorSpec> (*infer)(std::span<const TensorSpec> inputs, std::span<const bool> defined,
                                   const Attrs& attrs);
  int visible_outputs = 1;
  uint32_t save_inputs = 0;   // bit(i): inputs[i] is kept for backward
  uint32_t save_outputs = 0;  // bit(i), hidden ones counted on
  /// Those of save_outputs that backward reads, where that depends on the attributes; null: all.
  uint32_t (*reads_outputs)(const Attrs& attrs) = nullptr;
  uint32_t differentiable = ~0u;  // bit(i): inputs[i] can have a gradient
  Autocast autocast = Autocast::kFollow;
  /// Layouts the op takes and gives, kPlain among them; bit(int(Layout)). For others a reorder is inserted.
  uint32_t layouts = bit(static_cast<int>(Layout::kPlain));
  /// bit(i): inputs[i] (visible outputs[i]) is an image that takes the op's layout; all others are plain.
  uint32_t image_inputs = 1;
  uint32_t image_outputs = 1;
  /// bit(i): axis 0 of inputs[i] may be the batch. Where it is of some of these, and of no other input, the outputs are those of
  /// the batch's parts, one after another: the same bits, or within the tolerances where kernels don't have the same bits on
  /// every ISA. 0: not so, or not known. tests/engine/graph/by_sample_test.cpp holds the record's samples to it.
  uint32_t batch_inputs = 0;
  /// Whether that is so with these attributes; null: with all.
  bool (*by_sample)(const Attrs& attrs) = nullptr;
  /// The layouts to run in where the kernels have no choice of their own. Null: the first layout that an
  /// image input has and `layouts` lists, if every image input has one shape and dtype f32, else plain. Not
  /// asked on the reference backend, which sees plain tensors only. infer() ignores layouts.
  LayoutChoice (*choose_layout)(std::span<const TensorSpec> inputs, const Attrs& attrs) = nullptr;
  /// For ops that only look at the same memory otherwise (reshape, transpose, slice): the output as a view of
  /// a plain input[0]. Undefined where strides don't allow it; then, and on the reference backend, the
  /// kernels copy.
  Tensor (*view)(const Tensor& x, const Attrs& attrs) = nullptr;
  /// The gradient of inputs[input], of shape `shape`, where it is the output's or a view of it (reshape, both
  /// sides of add). Undefined where it isn't; then the kernels compute it.
  Tensor (*view_gradient)(size_t input, const Tensor& grad, const Shape& shape, const Attrs& attrs) = nullptr;
  /// The op that forward goes on with in the same pass (a product's activation), null for most attributes:
  /// one without attributes, of one input and output. Forward leaves its result in outputs[0] and, where its
  /// backward wants its input, that in the hidden outputs[1]. The graph gets a node of each, so that backward
  /// here is given the gradient of what this op alone would have answered.
  const OpRecord* (*fused)(const Attrs& attrs) = nullptr;
  std::vector<OpSample> (*samples)() = nullptr;
  /// Inputs of the sizes that networks have, for benchmarks. Null: the first sample, its leading axis made
  /// longer (ops/bench_samples.h).
  std::vector<OpSample> (*bench)() = nullptr;
  Tolerance f32 = {1e-4, 1e-5, "f32 against f64, sums of up to some thousand terms"};
  Tolerance bf16 = {2e-2, 2e-2, "bf16 has 8 bits of significand"};
  Tolerance f16 = {2.5e-3, 2.5e-3, "f16 has 11 bits of significand"};
  /// Sets those attributes that are others in every pass (a random number's key) to what a call at this moment has.
  /// Null: there are none.
  void (*renew)(Attrs& attrs) = nullptr;
  /// Extra FLOPs per call for summaries and rooflines; null: elements of the first output.
  double (*flops)(std::span<const TensorSpec> inputs, const Attrs& attrs) = nullptr;
};

struct OpRow {
  static constexpr const char* kKind = "op";
  const char* name() const { return record->name; }
  static std::span<const OpRow> built_in();  // op_table()

  const OpRecord* record;
  const Kernels* kernels[3];  // reference, cpu, cuda; null where there is none
};
enum class Backend : uint8_t { kReference = 0, kCpu = 1, kCuda = 2 };

/// The built-in ops, from the generated table.
std::span<const OpRow> op_table();

/// Ops by name: the built-in ones and those that a program adds. `apply` takes rows that stand in none, too.
using OpRegistry = Registry<OpRow>;

/// One a tensor; of rank 0 where it is undefined.
std::vector<TensorSpec> specs_of(std::span<const Tensor> tensors);

/// Runs an op: autocast, layout, contiguity, shape rule, allocation, kernel, graph node. Answers the visible
/// outputs.
std::vector<Tensor> apply(const OpRow& row, std::vector<Tensor> inputs, Attrs attrs = {});
/// The same for a built-in op, by its record.
std::vector<Tensor> apply(const OpRecord& record, std::vector<Tensor> inputs, Attrs attrs = {});
inline Tensor apply_one(const OpRecord& record, std::vector<Tensor> inputs, Attrs attrs = {}) {
  return apply(record, std::move(inputs), std::move(attrs))[0];
}

/// Whose convolutions and attention a thread takes on CUDA.
enum class Cudnn : uint8_t {
  kAuto,   // cuDNN's; our own where it isn't there or has none for a shape
  kNever,  // our own: im2col and products, self_attention.cu
  kOnly,   // cuDNN's; where it has none, an Error says why (tests)
};

/// The calling thread's variables; read and set them by what follows.
namespace thread_state {
Backend& backend();
DType& autocast();
bool& tf32();
Cudnn& cudnn();
}  // namespace thread_state

/// While one lives, ops of this thread run on the backend given (tests: the reference).
using UseBackend = ScopedValue<thread_state::backend>;

/// What ops of this thread are autocast to; kF32: nothing.
DType autocast_dtype();
/// While one lives, ops of this thread are autocast to the dtype given (kBF16, kF16; kF32: off).
using UseAutocast = ScopedValue<thread_state::autocast>;

/// Whether f32 products and convolutions of this thread may round their factors to TF32 (10 bits of
/// significand) for tensor cores. Only CUDA has them.
bool tf32_allowed();
/// While one lives, they may (true), or may not.
using UseTf32 = ScopedValue<thread_state::tf32>;

/// Whose convolutions and attention this thread takes on CUDA.
Cudnn cudnn_use();
/// While one lives, the one given.
using UseCudnn = ScopedValue<thread_state::cudnn>;

}  // namespace dlpipe::engine
