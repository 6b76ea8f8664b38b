// Open MPI, loaded when this process is a rank: programs that link it start up to 0.2 s later, as the network libraries that it
// brings measure clocks and look for adapters before main (libpsm2 and UCX, of Debian 13's).
#pragma once

#include <mpi.h>

#include "dlpipe/base/error.h"

namespace dlpipe::engine::mpi {

/// Its functions, called as MPI's, and the objects that its header names by their addresses.
struct Library {
  decltype(&MPI_Init_thread) init_thread;
  decltype(&MPI_Finalize) finalize;
  decltype(&MPI_Error_string) error_string;
  decltype(&MPI_Comm_set_errhandler) comm_set_errhandler;
  decltype(&MPI_Comm_rank) comm_rank;
  decltype(&MPI_Comm_size) comm_size;
  decltype(&MPI_Ibarrier) ibarrier;
  decltype(&MPI_Test) test;
  decltype(&MPI_Testall) testall;
  decltype(&MPI_Cancel) cancel;
  decltype(&MPI_Request_free) request_free;
  decltype(&MPI_Isend) isend;
  decltype(&MPI_Recv) recv;
  decltype(&MPI_Improbe) improbe;
  decltype(&MPI_Imrecv) imrecv;
  decltype(&MPI_Iprobe) iprobe;
  decltype(&MPI_Get_count) get_count;
  MPI_Comm world;                // MPI_COMM_WORLD
  MPI_Datatype byte;             // MPI_BYTE
  MPI_Errhandler errors_return;  // MPI_ERRORS_RETURN
  MPI_Request no_request;        // MPI_REQUEST_NULL
  MPI_Message no_message;        // MPI_MESSAGE_NULL
};

/// Loads it, once per process; it stays. kUnsupported where it isn't there, or is another MPI.
Result<const Library*> load();

}  // namespace dlpipe::engine::mpi
