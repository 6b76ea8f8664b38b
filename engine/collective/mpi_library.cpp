#include "dlpipe/engine/collective/mpi_library.h"

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "dlpipe/base/text.h"

namespace dlpipe::engine::mpi {
namespace {

/// By its name, as the loader finds it (LD_LIBRARY_PATH, which modules of clusters set); else where it was when dlpipe was
/// configured. All see its symbols: so do its plugins, which are loaded by it.
void* open_library(std::string& reasons) {
  for (const char* name : {DLPIPE_MPI_NAME, DLPIPE_MPI_FILE}) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return library;
    reasons +=
        concat(reasons.empty() ? "" : "; ", dlerror());  // NOLINT(concurrency-mt-unsafe): this thread's
  }
  return nullptr;
}

Result<Library> find_all() {
  std::string reasons;
  void* const library = open_library(reasons);
  if (library == nullptr)
    return Status(ErrorCode::kUnsupported,
                  concat("[ranks] Open MPI can't be loaded: ", reasons,
                         "; install it (openmpi-bin), or add its folder to LD_LIBRARY_PATH"));
  Library found{};
  Status status;
  const auto find = [&](const char* name, auto& to) {
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(dlsym(library, name));
    if (to == nullptr && status.ok())
      status = Status(ErrorCode::kUnsupported, concat("[ranks] ", DLPIPE_MPI_NAME, " has no ", name,
                                                      "; dlpipe was built for Open MPI"));
  };
  find("MPI_Init_thread", found.init_thread);
  find("MPI_Finalize", found.finalize);
  find("MPI_Error_string", found.error_string);
  find("MPI_Comm_set_errhandler", found.comm_set_errhandler);
  find("MPI_Comm_rank", found.comm_rank);
  find("MPI_Comm_size", found.comm_size);
  find("MPI_Ibarrier", found.ibarrier);
  find("MPI_Test", found.test);
  find("MPI_Testall", found.testall);
  find("MPI_Cancel", found.cancel);
  find("MPI_Request_free", found.request_free);
  find("MPI_Isend", found.isend);
  find("MPI_Recv", found.recv);
  find("MPI_Improbe", found.improbe);
  find("MPI_Imrecv", found.imrecv);
  find("MPI_Iprobe", found.iprobe);
  find("MPI_Get_count", found.get_count);
  find("ompi_mpi_comm_world", found.world);
  find("ompi_mpi_byte", found.byte);
  find("ompi_mpi_errors_return", found.errors_return);
  find("ompi_request_null", found.no_request);
  find("ompi_message_null", found.no_message);
  DLPIPE_RETURN_IF_ERROR(status);
  return found;
}

}  // namespace

Result<const Library*> load() {
  static const Result<Library> library = find_all();
  if (!library.ok()) return library.status();
  return &*library;
}

}  // namespace dlpipe::engine::mpi
