// A recording: what a pass over a model runs below `apply`, in order, and how the tensors lie that it reads and writes.
//
// While one is the thread's observer (core/kernel_observer.h) everything runs as always: a recording only notes. It holds
// the memory of what was there before (weights, constants), and of nothing that the pass computes. What the pass does
// beside its kernels is no part of it: refusal() names what was seen of that, difference.h finds more.
//
// One thread. Cost: a look-up for each tensor of each kernel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/engine/core/kernel_observer.h"

namespace dlpipe::engine {
struct Storage;
}

namespace dlpipe::engine::replay {

/// One allocation.
struct MemoryBlock {
  enum class Kind : uint8_t {
    kInput,      // of the pass: another memory each time
    kLasting,    // weights and buffers: the same memory each time
    kConstant,   // the host wrote it during the pass: kept
    kTemporary,  // kernels write it
  };
  Kind kind = Kind::kTemporary;
  size_t input = 0;                 // kInput: which
  size_t bytes = 0;                 // as far as it was touched
  std::shared_ptr<Storage> memory;  // kLasting, kConstant
  uint32_t version = 0;             // how often the pass changed it in place, where that is counted
  const char* maker = "";           // the op that wrote it first
};

/// A tensor: a place in a block.
struct Value {
  size_t block = 0;
  int64_t offset = 0;  // bytes
  TensorSpec spec;
  std::array<int64_t, Shape::kMaxRank> strides{};
  bool contiguous = true;
  friend bool operator==(const Value&, const Value&) = default;
};
using ValueId = int;
inline constexpr ValueId kNoValue = -1;  // an undefined tensor

struct Call {
  enum class Kind : uint8_t {
    kForward,
    kBackward,
    kCopy,      // inputs[0] to outputs[0]
    kGradient,  // inputs[0] arrives at `leaf`
  };
  Kind kind = Kind::kForward;
  const OpRecord* record = nullptr;
  const Kernels* kernels = nullptr;
  Attrs attrs = {};
  std::vector<ValueId> inputs = {}, outputs = {}, grad_outputs = {}, grad_inputs = {};
  std::vector<TensorSpec> input_specs = {};
  Tensor leaf = {};
  /// "relu", "relu backward", "copy", "gradient".
  std::string name() const;
};

/// Bytes from a tensor's first element to behind its last.
size_t extent_bytes(const Tensor& tensor);

class Recording final : public KernelObserver {
 public:
  /// `inputs` have other values each time, and may lie elsewhere. `lasting`: weights and buffers.
  Recording(std::span<const Tensor> inputs, std::span<const Tensor> lasting);

  void on_forward(const OpRecord& record, const Kernels& kernels, const ForwardArgs& args) override;
  void on_backward(const OpRecord& record, const Kernels& kernels, const BackwardArgs& args) override;
  void on_copy(const Tensor& to, const Tensor& from) override;
  void on_gradient(const Tensor& leaf, const Tensor& grad) override;
  void on_values(const Tensor& tensor) override;
  void on_refusal(const std::string& reason) override;

  /// The first part ends here, with an answer that the host looks at before the second begins.
  void end_first_part(const Tensor& answer);
  /// The second part is over.
  void end();

  /// Why the pass can't be repeated by running its kernels again; empty: nothing was seen.
  const std::string& refusal() const { return refusal_; }
  const std::vector<Call>& calls() const { return calls_; }
  const std::vector<Value>& values() const { return values_; }
  const std::vector<MemoryBlock>& blocks() const { return blocks_; }
  /// How many calls the first part has.
  size_t first_part() const { return first_part_; }
  ValueId answer() const { return answer_; }
  /// The most memory that the pass had in tensors at once, beyond what there was before it.
  size_t peak_bytes() const { return peak_bytes_; }

 private:
  size_t add_block(const Tensor& tensor, MemoryBlock::Kind kind);
  ValueId value_in(size_t block, const Tensor& tensor);
  /// Of a tensor that is read: what nobody wrote is a constant.
  ValueId read(const Tensor& tensor);
  ValueId write(const Tensor& tensor, const char* maker);
  std::vector<ValueId> read_all(std::span<const Tensor> tensors);
  std::vector<ValueId> write_all(std::span<const Tensor> tensors, const char* maker);
  void add(Call call);

  std::vector<Call> calls_;
  std::vector<Value> values_;
  std::vector<MemoryBlock> blocks_;
  // By its storage, whose address stays taken as long as someone watches it.
  struct Known {
    std::weak_ptr<Storage> storage;
    size_t block;
  };
  std::map<const Storage*, Known> known_;
  std::vector<std::vector<ValueId>> values_of_;  // by block
  std::string refusal_;
  size_t first_part_ = 0;
  ValueId answer_ = kNoValue;
  size_t used_before_ = 0, peak_bytes_ = 0;
};

}  // namespace dlpipe::engine::replay
