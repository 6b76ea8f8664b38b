// Proof that a oneTBB build can be trusted under ThreadSanitizer; scripts/tsan_tbb compiles and runs it.
//
//   probe          uses the parts of oneTBB that dlpipe uses, without a race: must report nothing
//   probe race     the same graph, where the parallel node also writes a plain shared integer: must report a
//   race
//
// A report of ThreadSanitizer makes the exit status 66 (its default); a wrong result makes it 1.

#include <atomic>
#include <cstdio>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <tbb/concurrent_queue.h>
#include <tbb/enumerable_thread_specific.h>
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/task_scheduler_observer.h>

namespace {

constexpr int kThreads = 4;
constexpr int kMessages = 2000;
constexpr int kSlots = 8;
constexpr int kPerSlot = 50;

struct Message {
  int index = 0;
};

// input -> limiter -> async (own thread) -> parallel square -> sequencer -> serial sum -> back to the
// limiter. Data travels beside the messages, in plain memory: only the graph's own edges order the accesses.
bool graph_sums(bool plant_race) {
  std::vector<long> values(kMessages);
  long planted = 0;
  long sum = 0;

  tbb::flow::graph graph;
  tbb::flow::input_node<Message> input(graph, [&, next = 0](tbb::flow_control& control) mutable {
    if (next == kMessages) {
      control.stop();
      return Message{};
    }
    values[next] = next;
    return Message{next++};
  });
  tbb::flow::limiter_node<Message> limiter(graph, 64);

  using Async = tbb::flow::async_node<Message, Message>;
  tbb::concurrent_bounded_queue<std::pair<int, Async::gateway_type*>> orders;
  Async async(graph, tbb::flow::unlimited, [&](const Message& message, Async::gateway_type& gateway) {
    gateway.reserve_wait();
    orders.push({message.index, &gateway});
  });
  std::thread io([&] {
    for (;;) {
      std::pair<int, Async::gateway_type*> order;
      orders.pop(order);
      if (!order.second) {
        return;
      }
      values[order.first] += 1;
      order.second->try_put(Message{order.first});
      order.second->release_wait();
    }
  });

  tbb::enumerable_thread_specific<long> scratch(0L);
  tbb::flow::function_node<Message, Message> square(graph, tbb::flow::unlimited, [&](Message message) {
    scratch.local() += 1;
    values[message.index] *= values[message.index];
    if (plant_race) {
      planted += values[message.index];
    }
    return message;
  });
  tbb::flow::sequencer_node<Message> in_order(
      graph, [](const Message& message) { return std::size_t(message.index); });
  tbb::flow::function_node<Message, tbb::flow::continue_msg> add(graph, tbb::flow::serial,
                                                                 [&](Message message) {
                                                                   sum += values[message.index];
                                                                   return tbb::flow::continue_msg{};
                                                                 });
  tbb::flow::make_edge(input, limiter);
  tbb::flow::make_edge(limiter, async);
  tbb::flow::make_edge(async, square);
  tbb::flow::make_edge(square, in_order);
  tbb::flow::make_edge(in_order, add);
  tbb::flow::make_edge(add, limiter.decrementer());
  input.activate();
  graph.wait_for_all();
  orders.push({0, nullptr});
  io.join();

  long expected = 0;
  for (long i = 1; i <= kMessages; ++i) {
    expected += i * i;
  }
  long bodies = 0;
  for (long count : scratch) {
    bodies += count;
  }
  return sum == expected && bodies == kMessages;
}

// Slots as the pipeline makes them: the last sample of a slot releases the graph without nodes that its consumer waits
// for.
bool slots_complete() {
  tbb::task_arena decode(kThreads, 1, tbb::task_arena::priority::low);
  struct Slot {
    tbb::flow::graph gate;
    std::atomic<int> missing{kPerSlot};
    std::vector<int> pixels = std::vector<int>(kPerSlot);
    bool complete = false;
  };
  std::optional<std::vector<Slot>> slots;
  decode.execute([&] { slots.emplace(kSlots); });  // a graph belongs to the pool in which it is made
  tbb::task_group workers;
  for (Slot& slot : *slots) {
    slot.gate.reserve_wait();
    decode.execute([&] {
      workers.run([&] {
        tbb::parallel_for(0, kPerSlot, [&](int i) {
          slot.pixels[i] = i;
          if (slot.missing.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            slot.complete = true;
            slot.gate.release_wait();
          }
        });
      });
    });
  }
  bool right = true;
  for (Slot& slot : *slots) {
    slot.gate.wait_for_all();
    right = right && slot.complete;
    for (int i = 0; i < kPerSlot; ++i) {
      right = right && slot.pixels[i] == i;
    }
  }
  decode.execute([&] { workers.wait(); });
  return right;
}

// A worker's own state, set by the arena's observer, as the engine does it.
class Entries : public tbb::task_scheduler_observer {
 public:
  explicit Entries(tbb::task_arena& arena) : tbb::task_scheduler_observer(arena) { observe(true); }
  ~Entries() override { observe(false); }
  void on_scheduler_entry(bool) override { mine() = 1; }
  static int& mine() {
    thread_local int entered = 0;
    return entered;
  }
};

bool observer_sees_workers() {
  tbb::task_arena training(kThreads, 1, tbb::task_arena::priority::high);
  Entries entries(training);
  std::vector<int> entered(1000);
  training.execute([&] { tbb::parallel_for(0, 1000, [&](int i) { entered[i] = Entries::mine(); }); });
  for (int one : entered) {
    if (one != 1) {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const bool plant_race = argc > 1 && std::strcmp(argv[1], "race") == 0;
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, kThreads);
  for (int round = 0; round < 5; ++round) {
    if (!graph_sums(plant_race) || !slots_complete() || !observer_sees_workers()) {
      std::fprintf(stderr, "[tsan_tbb] the probe computed a wrong result in round %d\n", round);
      return 1;
    }
  }
  return 0;
}
