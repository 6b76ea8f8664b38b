// Errors as values: Status, Result<T> and the one exception type, Error.
//
// A function that can fail returns a Status or a Result<T>, or throws Error; its header says which. value_or_throw() turns a
// result into a value or an exception.
//
// A message has the form `[area] what happened, where (file, record, option); what to do`. It is written once, where the error
// is detected. Callers that know more prepend it with Status::with_context(). misuse() and refuse() put the area in front of a
// message.
//
// Ownership: values; copies of a Status share its message. Threads: every function may be called from any thread. Cost: an ok
// Status is a null pointer, an error is one allocation.
#pragma once

#include <cstdint>
#include <locale>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace dlpipe {

enum class ErrorCode : uint8_t {
  kOk,
  kMisuse,       // invalid options or order of calls; the program exits with 2
  kNotFound,     // no such file, record or name
  kPermission,   // the system denied access
  kIo,           // reading or writing failed
  kNoSpace,      // the disk or the map is full
  kCorrupt,      // bytes that violate their format
  kUnsupported,  // valid, but not supported by dlpipe
  kOutOfMemory,
  kChanged,    // an input has changed since an earlier step read it
  kNonfinite,  // NaN or infinity in training
  kCancelled,  // stopped by a signal or by its owner; the program exits with 3
  kInternal,   // a bug in dlpipe
};

/// The name of a code, as printed by `--json` ("misuse", "not_found", ...).
std::string_view error_code_name(ErrorCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string message);

  bool ok() const { return rep_ == nullptr; }
  explicit operator bool() const { return ok(); }
  ErrorCode code() const { return rep_ ? rep_->code : ErrorCode::kOk; }
  /// The whole message; empty when ok.
  const std::string& message() const;
  /// The same error with `context` prepended to the message; ok stays ok.
  Status with_context(std::string_view context) const;

 private:
  struct Rep {
    ErrorCode code;
    std::string message;
  };
  std::shared_ptr<const Rep> rep_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::in_place_index<0>, std::move(value)) {}        // NOLINT: implicit by design
  Result(Status status) : value_(std::in_place_index<1>, std::move(status)) {  // NOLINT: implicit by design
    if (std::get<1>(value_).ok())
      value_.template emplace<1>(ErrorCode::kInternal, "[base] ok status used as error");
  }

  bool ok() const { return value_.index() == 0; }
  explicit operator bool() const { return ok(); }
  Status status() const { return ok() ? Status() : std::get<1>(value_); }

  T& operator*() & { return std::get<0>(value_); }
  const T& operator*() const& { return std::get<0>(value_); }
  T&& operator*() && { return std::get<0>(std::move(value_)); }
  T* operator->() { return &std::get<0>(value_); }
  const T* operator->() const { return &std::get<0>(value_); }

 private:
  std::variant<T, Status> value_;
};

/// The only exception type of the public interface.
class Error : public std::runtime_error {
 public:
  explicit Error(const Status& status) : std::runtime_error(status.message()), status_(status) {}
  const Status& status() const { return status_; }
  ErrorCode code() const { return status_.code(); }

 private:
  Status status_;
};

inline void throw_if_error(const Status& status) {
  if (!status.ok()) throw Error(status);
}
template <class T>
T value_or_throw(Result<T> result) {
  throw_if_error(result.status());
  return *std::move(result);
}

/// Converts the exception being handled; call it inside `catch (...)`. bad_alloc becomes kOutOfMemory.
Status status_from_current_exception(std::string_view area);

/// Converts an errno value: `[area] what: strerror; ...`, with ENOSPC, EACCES and ENOENT mapped to their
/// codes.
Status status_from_errno(std::string_view area, std::string_view what, int error_number);

/// Appends a value, formatted as by concat().
void append_text(std::string& out, int64_t value);
void append_text(std::string& out, uint64_t value);
void append_text(std::string& out, double value);  // six digits
template <class T>
void append_text(std::string& out, const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    out += std::string_view(value);
  } else if constexpr (std::is_same_v<T, char>) {
    out += value;
  } else if constexpr (std::is_floating_point_v<T>) {
    append_text(out, static_cast<double>(value));
  } else if constexpr (std::is_integral_v<T> && sizeof(T) > 1) {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    append_text(out, static_cast<Wide>(value));
  } else {  // types with their own operator<<
    std::ostringstream stream;
    stream.imbue(std::locale::classic());
    stream << value;
    out += stream.view();
  }
}

/// Concatenates the arguments, formatted as by streams in the classic locale: concat("crop ", w, "x", h). The program's global
/// locale has no effect, because the results are stored, hashed and sent.
template <class... Args>
std::string concat(const Args&... args) {
  std::string out;
  (append_text(out, args), ...);
  return out;
}

/// kMisuse with the message "[area] " and the concatenated parts: misuse("train", "--batch ", batch, "; give 1 or more").
template <class... Parts>
Status misuse(std::string_view area, const Parts&... parts) {
  return {ErrorCode::kMisuse, concat("[", area, "] ", parts...)};
}
/// Throws misuse(area, parts...) as an Error.
template <class... Parts>
[[noreturn]] void refuse(std::string_view area, const Parts&... parts) {
  throw Error(misuse(area, parts...));
}

}  // namespace dlpipe

// DLPIPE_RETURN_IF_ERROR(expr): returns the Status of expr if it is an error.
#define DLPIPE_RETURN_IF_ERROR(expr)                                                           \
  do {                                                                                         \
    if (::dlpipe::Status dlpipe_status_ = (expr); !dlpipe_status_.ok()) return dlpipe_status_; \
  } while (0)
#define DLPIPE_CONCAT_INNER(a, b) a##b
#define DLPIPE_CONCAT(a, b) DLPIPE_CONCAT_INNER(a, b)
// DLPIPE_ASSIGN_OR_RETURN(auto x, expr): x = *expr, or returns its Status.
#define DLPIPE_ASSIGN_OR_RETURN(lhs, expr) \
  DLPIPE_ASSIGN_OR_RETURN_IMPL(DLPIPE_CONCAT(dlpipe_result_, __LINE__), lhs, expr)
#define DLPIPE_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                 \
  if (!result.ok()) return result.status();             \
  lhs = *std::move(result)
