#include "engine/cpu/onednn/onednn.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>

#include "base/text.h"
#include "dlpipe/error.h"
#include "engine/core/kernel_table.h"

namespace dlpipe::engine::onednn {

const dnnl::engine& cpu_engine() {
  // Never destroyed: threads that end after main still have this engine's streams.
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

const dnnl::primitive_attr& user_scratchpad() {
  static const auto* attributes = [] {
    auto* made = new dnnl::primitive_attr();
    made->set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return made;
  }();
  return *attributes;
}

namespace {

dnnl::stream& worker_stream() {
  thread_local dnnl::stream stream(cpu_engine());
  return stream;
}

/// While an instance exists, this thread handles no signal sent from outside (by a user, a launcher or a timer). Such
/// signals stay pending or go to another thread. The reason: with a large K, oneDNN's f32 products (jit_avx_gemm_f32.cpp
/// and jit_avx512_common_gemm_f32.cpp in releases 2 and 3) point the stack pointer at the start of a heap buffer, so a
/// handler's frame would overwrite the memory before that buffer. Handlers belong to the program that uses this library,
/// such as Python, so flags or threads for our own handlers would not help.
class SignalsBlocked {
 public:
  SignalsBlocked() { ::pthread_sigmask(SIG_BLOCK, &asynchronous(), &former_); }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &former_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  /// All signals except those that the thread's own instructions raise.
  static const sigset_t& asynchronous() {
    static const sigset_t set = [] {
      sigset_t made;
      sigfillset(&made);
      for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&made, own);
      return made;
    }();
    return set;
  }

  sigset_t former_;
};

}  // namespace

void throw_translated(const char* what, const dnnl::error& error) {
  const ErrorCode code = error.status == dnnl_out_of_memory   ? ErrorCode::kOutOfMemory
                         : error.status == dnnl_unimplemented ? ErrorCode::kUnsupported
                                                              : ErrorCode::kInternal;
  throw Error(Status(code, concat("[onednn] ", what, ": ", error.message)));
}

void Primitive::run(std::initializer_list<Argument> arguments) const {
  translate_errors("executing a primitive", [&] {
    std::unordered_map<int, dnnl::memory> memories;
    for (const Argument& argument : arguments) {
      if (argument.data == nullptr) continue;
      memories.emplace(argument.index,
                       dnnl::memory(*argument.desc, cpu_engine(), const_cast<void*>(argument.data)));
    }
    if (const size_t bytes = scratchpad_bytes(); bytes > 0) {
      memories.emplace(DNNL_ARG_SCRATCHPAD,
                       dnnl::memory(scratchpad_, cpu_engine(), worker_scratch(kScratchpadSlot, bytes)));
    }
    dnnl::stream& stream = worker_stream();
    const SignalsBlocked blocked;
    primitive_.execute(stream, memories);
    stream.wait();
  });
}

namespace {

int outermost_axis(const Blocking& blocking) {
  const auto& strides = blocking.strides;
  return static_cast<int>(std::max_element(strides.begin(), strides.end()) - strides.begin());
}

size_t range_step_bytes(const dnnl::memory::desc& desc, const Blocking& blocking, int axis, int64_t length) {
  const int64_t stride = blocking.strides[static_cast<size_t>(axis)];
  return static_cast<size_t>(length / blocking.inner_block(axis) * stride) *
         dnnl::memory::data_type_size(data_type_of(desc));
}

dnnl::memory::desc first_range(const dnnl::memory::desc& desc, int axis, int64_t length) {
  dnnl::memory::dims dims = dims_of(desc);
  dims[static_cast<size_t>(axis)] = length;
  return desc.submemory_desc(dims, dnnl::memory::dims(dims.size(), 0));
}

}  // namespace

FormatCopy::FormatCopy(const dnnl::memory::desc& from, const dnnl::memory::desc& to, int64_t parts)
    : from_(from), to_(to) {
  translate_errors("making a reorder", [&] {
    const SingleOpenMpThread single;
    const Blocking from_blocking = blocking_of(from);
    const Blocking to_blocking = blocking_of(to);
    if (parts > 1 && from_blocking.strided && to_blocking.strided) {
      // The blocked side decides where to cut, because the plain side can be cut along any axis.
      const int axis = outermost_axis(to_blocking.inner_blocks.empty() ? from_blocking : to_blocking);
      const auto index = static_cast<size_t>(axis);
      const int64_t length = dims_of(from)[index];
      const int64_t block = std::max(from_blocking.inner_block(axis), to_blocking.inner_block(axis));
      // Ranges are equal and of whole blocks, so that one primitive serves all. Padded tensors are not cut.
      const bool padded = from_blocking.padded[index] != length || to_blocking.padded[index] != length;
      while (parts > 1 && (length % parts != 0 || length / parts % block != 0)) --parts;
      if (!padded && parts > 1) {
        parts_ = parts;
        from_step_bytes_ = range_step_bytes(from, from_blocking, axis, length / parts);
        to_step_bytes_ = range_step_bytes(to, to_blocking, axis, length / parts);
        from_ = first_range(from, axis, length / parts);
        to_ = first_range(to, axis, length / parts);
      }
    }
    primitive_ = Primitive::make<dnnl::reorder>(
        dnnl::reorder::primitive_desc(cpu_engine(), from_, cpu_engine(), to_, user_scratchpad()));
  });
}

void FormatCopy::run(int64_t part, const void* from, void* to) const {
  const auto index = static_cast<size_t>(part);
  primitive_.run({{DNNL_ARG_FROM, &from_, static_cast<const std::byte*>(from) + index * from_step_bytes_},
                  {DNNL_ARG_TO, &to_, static_cast<std::byte*>(to) + index * to_step_bytes_}});
}

void FormatCopy::run(const void* from, void* to) const {
  parallel_slices(parts_, [&](int64_t part) { run(part, from, to); });
}

}  // namespace dlpipe::engine::onednn

namespace dlpipe::engine {

KernelIsa kernel_isa() {
  static const KernelIsa isa = [] {
    // An instruction set's value has the bits of all sets that it includes. This also holds for future sets.
    const auto effective = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    const auto includes = [&](dnnl::cpu_isa wanted) {
      return (effective & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
    };
    if (includes(dnnl::cpu_isa::avx512_core_amx)) return KernelIsa::kAmx;
    if (includes(dnnl::cpu_isa::avx512_core_bf16)) return KernelIsa::kAvx512Bf16;
    if (includes(dnnl::cpu_isa::avx512_core)) return KernelIsa::kAvx512;
    if (includes(dnnl::cpu_isa::avx2)) return KernelIsa::kAvx2;
    return KernelIsa::kSse41;
  }();
  return isa;
}

// oneDNN accepts a limit only until it has detected the CPU, and kernel_isa() triggers that. Our own loops (isa.h) and the
// Highway kernels (loops/within_isa.h) follow kernel_isa().
Status limit_kernel_isa(KernelIsa isa) {
  static constexpr dnnl::cpu_isa kLimits[] = {dnnl::cpu_isa::sse41, dnnl::cpu_isa::avx2,
                                              dnnl::cpu_isa::avx512_core, dnnl::cpu_isa::avx512_core_bf16,
                                              dnnl::cpu_isa::avx512_core_amx};
  (void)dnnl::set_max_cpu_isa(kLimits[static_cast<size_t>(isa)]);  // kernel_isa() shows the effect
  const KernelIsa now = kernel_isa();
  if (now > isa) {
    return misuse("engine", "this process has already computed with ", isa_name(now), " and can't change to ",
                  isa_name(isa), "; start a new process");
  }
  if (now < isa) {
    return misuse("engine", "this machine's instruction set is ", isa_name(now), ", less than ",
                  isa_name(isa), "; use ", isa_name(now), " on all machines of a run");
  }
  return {};
}

std::string kernel_library() {
  return onednn::version();
}

}  // namespace dlpipe::engine
