#include "dlpipe/base/counter.h"
#include "dlpipe/base/mutex.h"

#include <vector>

namespace dlpipe {

namespace {
// Numbers given back by threads that ended; touched twice in a thread's life.
struct FreeSlots {
  Mutex mutex;
  std::vector<int> free DLPIPE_GUARDED_BY(mutex);
  int next DLPIPE_GUARDED_BY(mutex) = 0;
};
FreeSlots& free_slots() {
  static FreeSlots* slots = new FreeSlots;  // never destroyed: threads may end after main's statics
  return *slots;
}

struct ThreadSlot {
  int slot;
  ThreadSlot() {
    FreeSlots& slots = free_slots();
    const MutexLock lock(slots.mutex);
    if (slots.free.empty()) {
      slot = slots.next++;
    } else {
      slot = slots.free.back();
      slots.free.pop_back();
    }
  }
  ~ThreadSlot() {
    FreeSlots& slots = free_slots();
    const MutexLock lock(slots.mutex);
    slots.free.push_back(slot);
  }
};
}  // namespace

int thread_slot() {
  thread_local ThreadSlot slot;
  return slot.slot;
}

}  // namespace dlpipe
