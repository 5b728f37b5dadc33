// A state machine as a table of phase by event. The enums of both end with kCount. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>

namespace ddprun::launcher {

template <typename PhaseT, typename EventT, typename ActionT>
struct StateTable {
  using Phase = PhaseT;
  using Event = EventT;
  using Action = ActionT;
  // A step that a table leaves out leads to kCount: see IsComplete().
  struct Step {
    Phase next = Phase::kCount;
    Action action = {};
  };
  using Row = std::array<Step, static_cast<size_t>(Event::kCount)>;

  // The steps of one phase: From(phase).On(event, next, action).Ignores(other events...).
  struct From {
    constexpr explicit From(Phase from) : phase(from) {}
    constexpr From& On(Event event, Phase next, Action action = {}) {
      row[static_cast<size_t>(event)] = {next, action};
      return *this;
    }
    template <typename... Events>
    constexpr From& Ignores(Events... events) {
      (On(events, phase), ...);
      return *this;
    }
    Phase phase;
    Row row = {};
  };

  constexpr StateTable(std::initializer_list<From> phases) {
    for (const From& from : phases) rows[static_cast<size_t>(from.phase)] = from.row;
  }
  constexpr const Step& At(Phase phase, Event event) const {
    return rows[static_cast<size_t>(phase)][static_cast<size_t>(event)];
  }
  // Returns whether the table has all steps. Every table asserts this when it is compiled.
  constexpr bool IsComplete() const {
    return std::ranges::all_of(rows, [](const Row& row) {
      return std::ranges::all_of(row, [](const Step& s) { return s.next != Phase::kCount; });
    });
  }

  std::array<Row, static_cast<size_t>(Phase::kCount)> rows = {};
};

// Follows a table, beginning in its first phase.
template <typename Table>
class StateMachine {
 public:
  // `table` must outlive it.
  explicit StateMachine(const Table& table) : table_(&table) {}

  typename Table::Phase phase() const { return phase_; }
  // Takes the event, moves to the next phase and returns the action to do now.
  typename Table::Action On(typename Table::Event event) {
    const typename Table::Step& step = table_->At(phase_, event);
    phase_ = step.next;
    return step.action;
  }

 private:
  const Table* table_;
  typename Table::Phase phase_{};
};

}  // namespace ddprun::launcher
