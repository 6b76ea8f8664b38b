#include "engine/core/kernel_table.h"

#include <atomic>

#include "base/text.h"
#include "io/formats/json.h"

namespace dlpipe::engine {
namespace {

constexpr int64_t kVersion = 1;  // of the keys and of the meaning of the choices

Result<KernelChoice> parse_choice(const std::string& key, const formats::Json& json) {
  DLPIPE_ASSIGN_OR_RETURN(KernelChoice choice, [&]() -> Result<KernelChoice> {
    KernelChoice read;
    DLPIPE_ASSIGN_OR_RETURN(read.kernel, formats::require_string(json, "kernel", "kernels.json"));
    DLPIPE_ASSIGN_OR_RETURN(read.images, formats::require_int(json, "images", "kernels.json"));
    DLPIPE_ASSIGN_OR_RETURN(read.parts, formats::require_int(json, "parts", "kernels.json"));
    if (json["why"].is_string()) read.why = json["why"].as_string();
    return read;
  }());
  if (choice.images < 1 || choice.parts < 1) {
    return Status(ErrorCode::kCorrupt,
                  concat("[kernels] images and parts must be at least 1, for '", key, "' in kernels.json"));
  }
  return choice;
}

}  // namespace

KernelChoice KernelTable::find_or_add(const std::string& key, const std::function<KernelChoice()>& rule) {
  const MutexLock lock(mutex_);
  const auto found = choices_.find(key);
  return found != choices_.end() ? found->second : choices_.emplace(key, rule()).first->second;
}

std::optional<KernelChoice> KernelTable::find(const std::string& key) const {
  const MutexLock lock(mutex_);
  const auto found = choices_.find(key);
  return found != choices_.end() ? std::optional(found->second) : std::nullopt;
}

void KernelTable::set(const std::string& key, const KernelChoice& choice) {
  const MutexLock lock(mutex_);
  choices_[key] = choice;
  generation_ = next_generation();
}

void KernelTable::forget(const std::string& key) {
  const MutexLock lock(mutex_);
  choices_.erase(key);
  generation_ = next_generation();
}

void KernelTable::measure_with(std::shared_ptr<cpu::MeasuredKernels> measured) {
  const MutexLock lock(mutex_);
  measured_ = std::move(measured);
}

std::shared_ptr<cpu::MeasuredKernels> KernelTable::measured() const {
  const MutexLock lock(mutex_);
  return measured_;
}

Status KernelTable::load(std::string_view text) {
  DLPIPE_ASSIGN_OR_RETURN(const formats::Json json, formats::Json::parse(text));
  DLPIPE_ASSIGN_OR_RETURN(const int64_t version, formats::require_int(json, "version", "kernels.json"));
  if (version != kVersion) {
    return Status(ErrorCode::kUnsupported,
                  concat("[kernels] kernels.json has version ", version, ", this program reads version ",
                         kVersion, "; use the program that wrote it"));
  }
  const std::string library = json["library"].is_string() ? json["library"].as_string() : "another oneDNN";
  if (library != kernel_library()) {
    return Status(ErrorCode::kUnsupported,
                  concat("[kernels] kernels.json was made with ", library, ", but this program runs ",
                         kernel_library(), "; use the program that wrote it"));
  }
  std::map<std::string, KernelChoice> read;
  for (const auto& [key, value] : json["choices"].members()) {
    DLPIPE_ASSIGN_OR_RETURN(read[key], parse_choice(key, value));
  }
  const MutexLock lock(mutex_);
  for (auto& [key, choice] : read) choices_[key] = std::move(choice);
  generation_ = next_generation();
  return {};
}

std::string KernelTable::save() const {
  formats::Json choices = formats::Json::object();
  {
    const MutexLock lock(mutex_);
    for (const auto& [key, choice] : choices_) {
      formats::Json entry = formats::Json::object(
          {{"kernel", choice.kernel}, {"images", choice.images}, {"parts", choice.parts}});
      if (!choice.why.empty()) entry.set("why", choice.why);
      choices.set(key, std::move(entry));
    }
  }
  return formats::Json::object({{"version", kVersion},
                                {"isa", isa_name(kernel_isa())},
                                {"library", kernel_library()},
                                {"choices", std::move(choices)}})
      .dump(1);
}

void KernelTable::clear() {
  const MutexLock lock(mutex_);
  choices_.clear();
  measured_.reset();
  generation_ = next_generation();
}

size_t KernelTable::size() const {
  const MutexLock lock(mutex_);
  return choices_.size();
}

uint64_t KernelTable::generation() const {
  const MutexLock lock(mutex_);
  return generation_;
}

uint64_t KernelTable::next_generation() {
  static std::atomic<uint64_t> generation{0};
  return generation.fetch_add(1, std::memory_order_relaxed);
}

KernelTable*& thread_state::kernel_table() {
  static auto* const of_process = new KernelTable();  // never destroyed: kernels may run until the end
  thread_local KernelTable* t_table = of_process;
  return t_table;
}

KernelTable& kernel_table() {
  return *thread_state::kernel_table();
}

}  // namespace dlpipe::engine
