// Errors as values. Below the public face every fallible function answers a Status or a Result<T>; at it
// (Session, Loader construction, the program) `value_or_throw` turns one into the single exception type,
// Error.
//
// A message reads `[area] what happened, where (file, record, option); what to do`. It is written once, where
// the fact is known, and travels unchanged; callers that know more prepend with `Status::with_context`. Cost:
// an ok Status is one null pointer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace dlpipe {

enum class ErrorCode : uint8_t {
  kOk,
  kMisuse,       // the caller's options or call order; the program exits with 2
  kNotFound,     // no such file, record, name
  kPermission,   // the system refused
  kIo,           // reading or writing failed
  kNoSpace,      // disk or map full
  kCorrupt,      // bytes that are not what their format says
  kUnsupported,  // valid, but nothing here can handle it
  kOutOfMemory,
  kChanged,    // an input is not the one that an earlier step saw
  kNonfinite,  // NaN or infinity in training
  kCancelled,  // stopped by a signal or by its owner; the program exits with 3
  kInternal,   // a defect of dlpipe
};

/// Name of a code as printed by `--json` ("misuse", "not_found", ...).
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
  /// The same error with `context` put in front of the message; ok stays ok.
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

/// The one exception type of the public face.
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

/// The Status of the exception being handled; call inside `catch (...)`. bad_alloc becomes kOutOfMemory.
Status status_from_current_exception(std::string_view area);

/// The Status of an errno value: `[area] what: strerror; ...` with ENOSPC, EACCES, ENOENT mapped to their
/// codes.
Status status_from_errno(std::string_view area, std::string_view what, int error_number);

}  // namespace dlpipe

// DLPIPE_RETURN_IF_ERROR(expr): leave with the Status of expr when it is an error.
#define DLPIPE_RETURN_IF_ERROR(expr)                                                           \
  do {                                                                                         \
    if (::dlpipe::Status dlpipe_status_ = (expr); !dlpipe_status_.ok()) return dlpipe_status_; \
  } while (0)
#define DLPIPE_CONCAT_INNER(a, b) a##b
#define DLPIPE_CONCAT(a, b) DLPIPE_CONCAT_INNER(a, b)
// DLPIPE_ASSIGN_OR_RETURN(auto x, expr): x = *expr, or leave with its Status.
#define DLPIPE_ASSIGN_OR_RETURN(lhs, expr) \
  DLPIPE_ASSIGN_OR_RETURN_IMPL(DLPIPE_CONCAT(dlpipe_result_, __LINE__), lhs, expr)
#define DLPIPE_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                 \
  if (!result.ok()) return result.status();             \
  lhs = *std::move(result)
