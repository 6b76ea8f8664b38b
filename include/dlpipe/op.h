// Custom ops. There are two ways to define one.
//
// OpRecord and Kernels: the record has the shape rule, the autocast behaviour, what to save for backward, and sample inputs for
// checks. apply() runs the op. The row of record and kernels need not be in a table. engine/ops/README.md describes how to add
// an op to dlpipe itself.
//
// Function: forward and backward composed of other ops, for a single call.
//
// Kernels get plain contiguous tensors, or a layout that the record lists. They throw only dlpipe::Error.
//
// Ownership: records and kernels are constants that are never destroyed; attributes are copied into the graph. Threads: the
// kernels of one graph are called from one thread at a time and are parallel internally; the autocast dtype, the backend and
// the rest of thread_state belong to the calling thread. Cost: apply() allocates the outputs from a caching allocator and, if a
// gradient is needed, one node.
#pragma once

#include <any>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "dlpipe/registry.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine {

/// The attributes of an op that has none.
struct NoAttrs {};

/// An op's attributes: a plain struct (Conv2dAttrs...), copied into the graph.
class Attrs {
 public:
  Attrs() : value_(NoAttrs{}) {}
  template <class T>
  Attrs(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design
  /// The struct itself. Throws Error (kMisuse) that names both types if it is not a T.
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
  kFollow,  // accepts any dtype; mixed inputs are converted to the widest, bf16 with f16 to f32
  kWidest,  // like kFollow; its kernels copy bytes, so that the reference also accepts low dtypes (concat)
  kAsIs,    // accepts mixed dtypes and doesn't convert them (batch_norm: low images with f32 parameters)
};

/// Inputs for one check of an op: specs, and values drawn from a seed, uniform in [low, high).
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
  std::span<const Tensor> outputs;       // only those that the record saves are defined
  std::span<const Tensor> grad_outputs;  // for the visible outputs; undefined means zero
  /// Undefined if the gradient isn't needed, else allocated: write all of it, or replace it by another tensor.
  std::span<Tensor> grad_inputs;
  const Attrs& attrs;
  std::span<const TensorSpec> input_specs = {};  // of all inputs as the forward kernel saw them, saved or not
};

/// The memory layout that an op runs in on a fast backend: image inputs are reordered to `inputs`, image
/// outputs are allocated in `outputs`.
struct LayoutChoice {
  Layout inputs = Layout::kPlain;
  Layout outputs = Layout::kPlain;
};

struct Kernels {
  void (*forward)(const ForwardArgs& args) = nullptr;
  void (*backward)(const BackwardArgs& args) = nullptr;  // null: no gradient
  /// Whether this backend supports these inputs; null: all that pass the shape rule. If false, the reference
  /// kernels run.
  bool (*supports)(std::span<const TensorSpec> inputs, const Attrs& attrs) = nullptr;
  /// Tells users which kernel runs for these inputs and, if it isn't the fastest one, why. Null: there is
  /// only one.
  std::string (*explain)(std::span<const TensorSpec> inputs, const Attrs& attrs, bool backward) = nullptr;
  /// If the record's `fused` returns a second op: this backend's kernels for that op, which support the same
  /// inputs.
  const Kernels* (*fused)(const Attrs& attrs) = nullptr;
  /// The best layouts for these kernels, given the inputs' present layouts (a pure function of specs and ISA).
  /// Null: the record's choice. Only called for the cpu's kernels; the other backends see plain tensors.
  LayoutChoice (*choose_layout)(std::span<const TensorSpec> inputs, const Attrs& attrs) = nullptr;
  /// Whether results are bit-identical on every instruction set of the host; check_op (tests/engine) tests this for
  /// the cpu's kernels. If false, results on two instruction sets agree within the record's tolerances.
  bool same_bits_on_every_isa = true;
};

constexpr uint32_t bit(int i) {
  return 1u << i;
}

struct AttrForm;  // how attributes are written to graph files: engine/core/attr_form.h

struct OpRecord {
  const char* name;
  /// Converts the attributes to a list and back: for graphs, which are printed, compared and written to
  /// files. Null: the op has no attributes, or they can't be written, and then the op can't be part of a graph.
  const AttrForm* attr_form = nullptr;
  /// How many inputs a call has: the first `least` are required, the others may be undefined or omitted.
  static constexpr int kMostInputs = 32;
  struct InputCount {
    uint8_t least = 1;
    uint8_t most = 1;
  };
  InputCount input_count = {};
  /// The shape rule: specs of all outputs, visible ones first, then hidden ones (kept for backward only). Throws
  /// Error "[name] expected ..., got ...; ..." for invalid inputs. An undefined input has rank 0 and elements() == 1;
  /// `defined` tells which are.
  std::vector<TensorSpec> (*infer)(std::span<const TensorSpec> inputs, std::span<const bool> defined,
                                   const Attrs& attrs);
  int visible_outputs = 1;
  uint32_t save_inputs = 0;   // bit(i): inputs[i] is kept for backward
  uint32_t save_outputs = 0;  // bit(i): outputs[i] is kept; hidden outputs follow the visible ones
  /// The bits of save_outputs that backward reads, if that depends on the attributes; null: all.
  uint32_t (*reads_outputs)(const Attrs& attrs) = nullptr;
  uint32_t differentiable = ~0u;  // bit(i): inputs[i] can have a gradient
  Autocast autocast = Autocast::kFollow;
  /// The layouts that the op supports, including kPlain; bit(int(Layout)). For others a reorder is inserted.
  uint32_t layouts = bit(static_cast<int>(Layout::kPlain));
  /// bit(i): inputs[i] (visible outputs[i]) is an image in the op's layout; all others are plain.
  uint32_t image_inputs = 1;
  uint32_t image_outputs = 1;
  /// bit(i): axis 0 of inputs[i] may be the batch. If it is the batch of some of these inputs and of no other input, the
  /// outputs are the outputs for parts of the batch, concatenated: with the same bits, or, for kernels without
  /// same_bits_on_every_isa, within the tolerances. 0: not so, or not known. tests/engine/graph/by_sample_test.cpp tests it
  /// with the record's samples.
  uint32_t batch_inputs = 0;
  /// Whether batch_inputs applies with these attributes; null: with all.
  bool (*by_sample)(const Attrs& attrs) = nullptr;
  /// The layouts to run in if the kernels have no choose_layout. Null: if all image inputs have the same shape and
  /// dtype f32, the first layout that an image input has and `layouts` lists, else plain. Not called for the
  /// reference backend, which sees only plain tensors. infer() ignores layouts.
  LayoutChoice (*choose_layout)(std::span<const TensorSpec> inputs, const Attrs& attrs) = nullptr;
  /// For ops that reinterpret the same memory (reshape, transpose, slice): the output as a view of a plain
  /// input[0]. Undefined if strides don't allow a view; then, and on the reference backend, the kernels
  /// copy.
  Tensor (*view)(const Tensor& x, const Attrs& attrs) = nullptr;
  /// The gradient of inputs[input], of shape `shape`, if it equals the output's gradient or is a view of it (reshape,
  /// both sides of add). Undefined if it doesn't; then the kernels compute it.
  Tensor (*view_gradient)(size_t input, const Tensor& grad, const Shape& shape, const Attrs& attrs) = nullptr;
  /// A second op that forward also computes in the same pass (a product's activation); it has no attributes, one input
  /// and one output. Null for most attributes. Forward writes the second op's result to outputs[0] and, if the second
  /// op's backward reads its input, that input to the hidden outputs[1]. The graph gets a node for each op, so that
  /// the first op's backward gets the gradient of its own unfused output.
  const OpRecord* (*fused)(const Attrs& attrs) = nullptr;
  std::vector<OpSample> (*samples)() = nullptr;
  /// Inputs of realistic sizes, for benchmarks. Null: the first sample with a longer leading
  /// axis.
  std::vector<OpSample> (*bench)() = nullptr;
  Tolerance f32 = {1e-4, 1e-5, "f32 against f64, sums of up to some thousand terms"};
  Tolerance bf16 = {2e-2, 2e-2, "bf16 has 8 bits of significand"};
  Tolerance f16 = {2.5e-3, 2.5e-3, "f16 has 11 bits of significand"};
  /// FLOPs per call, for profiles and rooflines; null: not counted.
  double (*flops)(std::span<const TensorSpec> inputs, const Attrs& attrs) = nullptr;
};

struct OpRow {
  static constexpr const char* kKind = "op";
  const char* name() const { return record->name; }
  static std::span<const OpRow> built_in();  // op_table()

  const OpRecord* record;
  const Kernels* kernels[3];  // reference, cpu, cuda; null if there is none
};
enum class Backend : uint8_t { kReference = 0, kCpu = 1, kCuda = 2 };

/// The built-in ops, from the generated table.
std::span<const OpRow> op_table();

/// Ops by name: the built-in ones and those that a program adds. apply() also accepts rows that are in no registry.
using OpRegistry = Registry<OpRow>;

/// One spec per tensor; rank 0 for an undefined one.
std::vector<TensorSpec> specs_of(std::span<const Tensor> tensors);

/// Runs an op: autocast, layout, contiguity, shape rule, allocation, kernel, graph node. Returns the visible
/// outputs.
std::vector<Tensor> apply(const OpRow& row, std::vector<Tensor> inputs, Attrs attrs = {});
/// The same for a built-in op, given its record.
std::vector<Tensor> apply(const OpRecord& record, std::vector<Tensor> inputs, Attrs attrs = {});
inline Tensor apply_one(const OpRecord& record, std::vector<Tensor> inputs, Attrs attrs = {}) {
  return apply(record, std::move(inputs), std::move(attrs))[0];
}

/// Which convolutions and attention a thread uses on CUDA.
enum class Cudnn : uint8_t {
  kAuto,   // cuDNN's; dlpipe's if cuDNN is missing or doesn't support a shape
  kNever,  // dlpipe's: im2col and products, sequences.cu
  kOnly,   // cuDNN's; an Error says why it can't be used (for tests)
};

/// The calling thread's variables. Use the declarations below to read and set them.
namespace thread_state {
Backend& backend();
DType& autocast();
bool& tf32();
Cudnn& cudnn();
}  // namespace thread_state

/// While it lives, this thread's ops run on the given backend (tests: the reference).
using UseBackend = ScopedValue<thread_state::backend>;

/// The dtype that this thread's ops are autocast to; kF32: autocast is off.
DType autocast_dtype();
/// While it lives, this thread's ops are autocast to the given dtype (kBF16, kF16; kF32: off).
using UseAutocast = ScopedValue<thread_state::autocast>;

/// Whether this thread's f32 products and convolutions may round their inputs to TF32 (10 bits of
/// significand) for tensor cores. CUDA only.
bool tf32_allowed();
/// While it lives, they may (true) or may not (false).
using UseTf32 = ScopedValue<thread_state::tf32>;

/// Which convolutions and attention this thread uses on CUDA.
Cudnn cudnn_use();
/// While it lives, this thread uses the given ones.
using UseCudnn = ScopedValue<thread_state::cudnn>;

// ---- a differentiable function without a record

/// A tensor kept for backward, with its version. A write in place before backward is an error that names the op.
class SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(const Tensor& tensor);
  /// The tensor, or Error "[op] a tensor saved for backward was changed in place (version 3, saved at 2);
  /// clone it".
  Tensor unpack(const std::string& op) const;
  bool defined() const { return tensor_.defined(); }
  void reset() { tensor_ = Tensor(); }

 private:
  Tensor tensor_;
  uint32_t version_ = 0;
};

/// A differentiable function. An object is used for one call, by one thread.
///
///   struct Square : Function {
///     std::string name() const override { return "square"; }
///     std::vector<Tensor> forward(std::span<const Tensor> inputs) override {
///       save(inputs[0]);
///       return {mul(inputs[0], inputs[0])};
///     }
///     std::vector<Tensor> backward(std::span<const Tensor> grad_outputs) override {
///       return {mul(grad_outputs[0], scale(saved(0), 2))};
///     }
///   };
///   Tensor y = run_function(std::make_shared<Square>(), {x})[0];
class Function {
 public:
  virtual ~Function() = default;
  virtual std::string name() const = 0;
  /// Runs without recording a graph. Use save() to keep tensors for backward.
  virtual std::vector<Tensor> forward(std::span<const Tensor> inputs) = 0;
  virtual std::vector<Tensor> backward(std::span<const Tensor> grad_outputs) = 0;

 protected:
  void save(const Tensor& tensor) { saved_.emplace_back(tensor); }
  Tensor saved(size_t i) const { return saved_.at(i).unpack(name()); }

 private:
  friend class FunctionNode;
  std::vector<SavedTensor> saved_;
};
std::vector<Tensor> run_function(std::shared_ptr<Function> function, std::vector<Tensor> inputs);

}  // namespace dlpipe::engine
