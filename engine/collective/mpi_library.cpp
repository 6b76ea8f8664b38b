#include "dlpipe/engine/collective/mpi_library.h"

#include "dlpipe/engine/collective/loaded_library.h"

namespace dlpipe::engine::mpi {
namespace {

/// By its name, as the loader finds it (LD_LIBRARY_PATH, which modules of clusters set); else where it was when dlpipe was
/// configured.
Result<Library> find_all() {
  LoadedLibrary library("Open MPI", {DLPIPE_MPI_NAME, DLPIPE_MPI_FILE}, RTLD_GLOBAL,
                        "; install it (openmpi-bin), or add its folder to LD_LIBRARY_PATH");
  Library found{};
  library.find("MPI_Init_thread", found.init_thread);
  library.find("MPI_Finalize", found.finalize);
  library.find("MPI_Error_string", found.error_string);
  library.find("MPI_Comm_set_errhandler", found.comm_set_errhandler);
  library.find("MPI_Comm_rank", found.comm_rank);
  library.find("MPI_Comm_size", found.comm_size);
  library.find("MPI_Ibarrier", found.ibarrier);
  library.find("MPI_Test", found.test);
  library.find("MPI_Testall", found.testall);
  library.find("MPI_Cancel", found.cancel);
  library.find("MPI_Request_free", found.request_free);
  library.find("MPI_Isend", found.isend);
  library.find("MPI_Recv", found.recv);
  library.find("MPI_Improbe", found.improbe);
  library.find("MPI_Imrecv", found.imrecv);
  library.find("MPI_Iprobe", found.iprobe);
  library.find("MPI_Get_count", found.get_count);
  library.find("ompi_mpi_comm_world", found.world);
  library.find("ompi_mpi_byte", found.byte);
  library.find("ompi_mpi_errors_return", found.errors_return);
  library.find("ompi_request_null", found.no_request);
  library.find("ompi_message_null", found.no_message);
  DLPIPE_RETURN_IF_ERROR(library.status());
  return found;
}

}  // namespace

Result<const Library*> load() {
  static const Result<Library> library = find_all();
  if (!library.ok()) return library.status();
  return &*library;
}

}  // namespace dlpipe::engine::mpi
