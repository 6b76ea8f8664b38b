#include "dlpipe/error.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/messages.h"
#include "base/text.h"

namespace dlpipe {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk:
      return "ok";
    case ErrorCode::kMisuse:
      return "misuse";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kPermission:
      return "permission";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kNoSpace:
      return "no_space";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kOutOfMemory:
      return "out_of_memory";
    case ErrorCode::kChanged:
      return "changed";
    case ErrorCode::kNonfinite:
      return "nonfinite";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

// Makes the message safe to print: it may contain names of files, columns and classes of any content and length.
Status::Status(ErrorCode code, std::string message) {
  constexpr size_t kMost = 8192;
  if (code != ErrorCode::kOk)
    rep_ = std::make_shared<const Rep>(Rep{code, printable_lines(shortened(message, kMost))});
}

const std::string& Status::message() const {
  static const std::string empty;
  return rep_ ? rep_->message : empty;
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return *this;
  // One area is enough: the context's.
  return Status(code(), concat(context, context.starts_with('[') ? without_area(message()) : message()));
}

// Created in advance: when it is needed, there may be no memory to build a message.
static const Status kNoMemory(ErrorCode::kOutOfMemory,
                              "[memory] out of memory; use smaller batches, fewer slots or threads");

Status status_from_current_exception(std::string_view area) {
  const std::string prefix = "[" + std::string(area) + "] ";
  try {
    throw;
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    try {
      return Status(ErrorCode::kOutOfMemory, prefix + std::string(without_area(kNoMemory.message())));
    } catch (const std::bad_alloc&) {
      return kNoMemory;
    }
  } catch (const std::filesystem::filesystem_error& error) {
    return status_from_errno(area, "cannot use " + error.path1().string(), error.code().value());
  } catch (const std::system_error& error) {  // std::thread's
    return Status(ErrorCode::kOutOfMemory, prefix + "the system refused: " + error.code().message() +
                                               "; raise ulimit -v or ulimit -u, or ask for fewer threads");
  } catch (const std::exception& error) {
    return Status(ErrorCode::kInternal, prefix + "unexpected exception: " + error.what());
  } catch (...) {
    return Status(ErrorCode::kInternal, prefix + "unexpected exception of unknown type");
  }
}

Status status_from_errno(std::string_view area, std::string_view what, int error_number) {
  ErrorCode code = ErrorCode::kIo;
  const char* advice = "";
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      code = ErrorCode::kNoSpace;
      advice = "; free space there";
      break;
    case EACCES:
    case EPERM:
      code = ErrorCode::kPermission;
      advice = "; check the owner and mode";
      break;
    case EROFS:
      code = ErrorCode::kPermission;
      advice = "; choose another directory";
      break;
    case ENOENT:
    case ENOTDIR:
      code = ErrorCode::kNotFound;
      break;
    case ENOMEM:
      code = ErrorCode::kOutOfMemory;
      break;
    case EFBIG:
      code = ErrorCode::kNoSpace;
      advice = "; raise ulimit -f, or choose another file system";
      break;
    case EIO:
      advice = "; look for disk errors (dmesg)";
      break;
    case EMFILE:
      advice = "; raise ulimit -n";
      break;
    default:
      break;
  }
  return Status(code, concat("[", area, "] ", printable(what), ": ", std::strerror(error_number), advice));
}

}  // namespace dlpipe
