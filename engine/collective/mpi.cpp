#include "engine/collective/mpi.h"

#include <mpi.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <list>
#include <optional>
#include <string>

#include "base/text.h"
#include "dlpipe/error.h"
#include "engine/collective/transport.h"

namespace dlpipe::engine::mpi {

/// MPI's functions by their names, and the objects that its header refers to by address.
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

/// Loads the library, once per process. kUnsupported if it is missing, or is another MPI.
Result<const Library*> load();

namespace {

/// First by name, as the loader finds it (LD_LIBRARY_PATH, which cluster modules set), else at its path when dlpipe was
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

namespace dlpipe::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kData = 1;
constexpr int kLate = 3;                 // a rank gives up, and which rank it waited for
constexpr int kGoodbye = 2;              // a rank stops, and why
constexpr size_t kMostAtOnce = 1 << 30;  // MPI counts in int

Status mpi_error(const mpi::Library& mpi, int error) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  mpi.error_string(error, text.data(), &length);
  return {ErrorCode::kIo, concat("MPI: ", std::string_view(text.data(), static_cast<size_t>(length)))};
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(const mpi::Library& mpi, const MpiOptions& options) : mpi_(mpi), options_(options) {
    mpi_.comm_set_errhandler(mpi_.world, mpi_.errors_return);
    mpi_.comm_rank(mpi_.world, &rank_);
    mpi_.comm_size(mpi_.world, &world_);
  }

  int rank() const override { return rank_; }
  int world() const override { return world_; }

  Status exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in) override {
    do {
      const auto now_out = out.first(std::min(out.size(), kMostAtOnce));
      const auto now_in = in.first(std::min(in.size(), kMostAtOnce));
      DLPIPE_RETURN_IF_ERROR(exchange_at_once(peer, now_out, now_in));
      out = out.subspan(now_out.size());
      in = in.subspan(now_in.size());
    } while (!out.empty() || !in.empty());
    return {};
  }

  void abort(std::string_view reason) noexcept override {
    try {
      tell_all(kGoodbye, std::string(reason));
    } catch (...) {  // out of memory: the others notice by their timeout
    }
  }

  Status close() override {
    MPI_Request request = mpi_.no_request;
    if (const int error = mpi_.ibarrier(mpi_.world, &request); error != MPI_SUCCESS)
      return mpi_error(mpi_, error);
    DLPIPE_RETURN_IF_ERROR(wait_until(-1, [&](bool& is_over) -> Status {
      int is_done = 0;
      const int tested = mpi_.test(&request, &is_done, MPI_STATUS_IGNORE);
      is_over = is_done != 0;
      return tested == MPI_SUCCESS ? Status() : mpi_error(mpi_, tested);
    }));
    const int error = mpi_.finalize();
    return error == MPI_SUCCESS ? Status() : mpi_error(mpi_, error);
  }

 private:
  Status exchange_at_once(int peer, std::span<const std::byte> out, std::span<std::byte> in) {
    std::array<MPI_Request, 2> requests = {mpi_.no_request, mpi_.no_request};
    Status status = send_and_receive(peer, out, in, requests);
    if (status.ok() && !in.empty()) status = listen();
    // After a failure MPI can't cancel a send that has begun: the peer may still be sent the later contents of `out`, by a
    // process that is exiting. The peer is notified first, and checks for that before it uses received data; between machines,
    // over two connections, the notification may arrive too late.
    for (MPI_Request& request : requests) {
      if (request == mpi_.no_request) continue;
      mpi_.cancel(&request);
      mpi_.request_free(&request);
    }
    return status;
  }

  Status send_and_receive(int peer, std::span<const std::byte> out, std::span<std::byte> in,
                          std::array<MPI_Request, 2>& requests) {
    if (!out.empty()) {
      const int error = mpi_.isend(out.data(), static_cast<int>(out.size()), mpi_.byte, peer, kData,
                                   mpi_.world, &requests[1]);
      if (error != MPI_SUCCESS) return mpi_error(mpi_, error);
    }
    // A message is only received if its size is the expected one: ranks that call different operations get an error
    // instead of each other's bytes.
    bool is_taken = in.empty();
    return wait_until(peer, [&](bool& is_over) -> Status {
      if (!is_taken) {
        DLPIPE_ASSIGN_OR_RETURN(is_taken, take_message(peer, in, requests[0]));
      }
      int is_done = 0;
      const int error =
          mpi_.testall(static_cast<int>(requests.size()), requests.data(), &is_done, MPI_STATUSES_IGNORE);
      is_over = is_taken && is_done != 0;
      return error == MPI_SUCCESS ? Status() : mpi_error(mpi_, error);
    });
  }

  /// Whether the peer's message has arrived; then begins to receive it into `in`.
  Result<bool> take_message(int peer, std::span<std::byte> in, MPI_Request& request) {
    int is_there = 0;
    MPI_Message message = mpi_.no_message;
    MPI_Status status;
    int error = mpi_.improbe(peer, kData, mpi_.world, &is_there, &message, &status);
    if (error != MPI_SUCCESS) return mpi_error(mpi_, error);
    if (is_there == 0) return false;
    int size = 0;
    mpi_.get_count(&status, mpi_.byte, &size);
    if (static_cast<size_t>(size) != in.size()) {
      return Status(ErrorCode::kInternal, concat("rank ", peer, " sent ", size, " bytes, but rank ", rank_,
                                                 " expected ", in.size()));
    }
    error = mpi_.imrecv(in.data(), size, mpi_.byte, &message, &request);
    if (error != MPI_SUCCESS) return mpi_error(mpi_, error);
    return true;
  }

  /// Calls `look` until it reports that the wait is over. `peer` -1: all ranks.
  template <class Look>
  Status wait_until(int peer, const Look& look) {
    const auto begin = Clock::now();
    const std::chrono::duration<double> most(options_.peer_timeout_s);
    for (Pause pause;; pause()) {
      bool is_over = false;
      DLPIPE_RETURN_IF_ERROR(look(is_over));
      if (is_over) return {};
      DLPIPE_RETURN_IF_ERROR(listen());
      if (stops_waiting()) return {ErrorCode::kCancelled, "this rank has stopped"};
      if (Clock::now() - begin < most) continue;
      return give_up_on(peer);
    }
  }

  Status give_up_on(int peer) {
    if (peer < 0) return {ErrorCode::kIo, "another rank has not exited (--peer-timeout)"};
    tell_all(kLate, std::string(reinterpret_cast<const char*>(&peer), sizeof peer));
    LateRanks late(world_);
    const auto begin = Clock::now();
    for (Pause pause; Clock::now() - begin < LateRanks::listening(options_.peer_timeout_s); pause()) {
      if (const auto note = take_note(kLate); note && note->text.size() == sizeof peer) {
        int waits_for = 0;
        std::memcpy(&waits_for, note->text.data(), sizeof waits_for);
        if (waits_for >= 0 && waits_for < world_) late.note(note->from, waits_for);
      }
    }
    return late.gone(peer, options_.peer_timeout_s);
  }

  /// An error if a rank has reported that it stops.
  Status listen() {
    const auto note = take_note(kGoodbye);
    return note ? told(note->from, note->text) : Status();
  }

  struct Note {
    int from = 0;
    std::string text;
  };
  /// A note that has arrived from any rank, if there is one.
  std::optional<Note> take_note(int tag) {
    int is_there = 0;
    MPI_Status status;
    if (mpi_.iprobe(MPI_ANY_SOURCE, tag, mpi_.world, &is_there, &status) != MPI_SUCCESS || is_there == 0)
      return std::nullopt;
    int size = 0;
    mpi_.get_count(&status, mpi_.byte, &size);
    Note note{status.MPI_SOURCE, std::string(static_cast<size_t>(std::max(size, 0)), '\0')};
    mpi_.recv(note.text.data(), size, mpi_.byte, note.from, tag, mpi_.world, MPI_STATUS_IGNORE);
    return note;
  }

  /// Sends to all ranks that can be reached within a short time.
  void tell_all(int tag, std::string text) {
    constexpr size_t kMost = 4000;  // small enough to be sent without waiting for the receiver
    constexpr std::chrono::milliseconds kMoment{200};
    text.resize(std::min(text.size(), kMost));
    const std::string& note = notes_.emplace_back(std::move(text));
    std::vector<MPI_Request> requests;
    for (int peer = 0; peer < world_; ++peer) {
      if (peer == rank_) continue;
      requests.push_back(mpi_.no_request);
      mpi_.isend(note.data(), static_cast<int>(note.size()), mpi_.byte, peer, tag, mpi_.world,
                 &requests.back());
    }
    const auto begin = Clock::now();
    int is_done = 0;
    for (Pause pause; is_done == 0 && Clock::now() - begin < kMoment; pause()) {
      mpi_.testall(static_cast<int>(requests.size()), requests.data(), &is_done, MPI_STATUSES_IGNORE);
    }
  }

  const mpi::Library& mpi_;
  const MpiOptions options_;
  int rank_ = 0;
  int world_ = 1;
  std::list<std::string> notes_;  // may still be in transit
};

// Between machines, Open MPI's TCP requests each piece of a large message with a control message. On a connection with one
// socket it waits behind the pieces in the other direction, so that an exchange takes as long as both directions in sequence.
// With two sockets both run concurrently (benchmarks/scaling/network.py). The user's settings for mpirun are kept.
void let_both_ways_go_at_once() {
  ::setenv("OMPI_MCA_btl_tcp_links", "2", 0);  // NOLINT(concurrency-mt-unsafe): before MPI's threads
}

}  // namespace

Result<std::unique_ptr<Transport>> open_mpi_transport(const MpiOptions& options) {
  DLPIPE_ASSIGN_OR_RETURN(const mpi::Library* const mpi, mpi::load());
  let_both_ways_go_at_once();
  int provided = MPI_THREAD_SINGLE;
  const int error = mpi->init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (error != MPI_SUCCESS) return mpi_error(*mpi, error).with_context("[ranks] ");
  if (provided < MPI_THREAD_FUNNELED)
    return Status(ErrorCode::kUnsupported,
                  "[ranks] this MPI library has no thread support; install one that has it");
  return std::unique_ptr<Transport>(std::make_unique<MpiTransport>(*mpi, options));
}

}  // namespace dlpipe::engine
