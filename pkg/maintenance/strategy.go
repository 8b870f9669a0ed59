package maintenance

import "strings"

// Strategy is what the owner of a virtual machine wants to happen to it when its
// node goes into maintenance.
type Strategy string

const (
	// StrategyMigrate moves the VM to another node by live migration.
	StrategyMigrate Strategy = "Migrate"
	// StrategyRestartAfterEnable shuts the VM down and starts it on another node as
	// soon as this one is empty.
	StrategyRestartAfterEnable Strategy = "ShutdownAndRestartAfterEnable"
	// StrategyRestartAfterDisable shuts the VM down and starts it when the node
	// leaves maintenance.
	StrategyRestartAfterDisable Strategy = "ShutdownAndRestartAfterDisable"
	// StrategyShutdown shuts the VM down; its owner starts it again.
	StrategyShutdown Strategy = "Shutdown"
)

// Strategies lists the valid values in the order in which documentation and error
// messages name them.
var Strategies = []Strategy{
	StrategyMigrate, StrategyRestartAfterEnable, StrategyRestartAfterDisable, StrategyShutdown,
}

// StrategyNames lists the valid values for a sentence.
func StrategyNames() string {
	list := make([]string, 0, len(Strategies))
	for _, s := range Strategies {
		list = append(list, string(s))
	}
	return strings.Join(list, ", ")
}

// ParseStrategy reads a label value. Values are case-sensitive and not trimmed, as
// in Harvester; ok is false for anything but the four, and the strategy is then
// Migrate, the one that never powers a VM off.
func ParseStrategy(value string) (strategy Strategy, ok bool) {
	for _, s := range Strategies {
		if value == string(s) {
			return s, true
		}
	}
	return StrategyMigrate, false
}

// StrategyOf reads the strategy from a VirtualMachine's labels. A missing label is
// Migrate and valid; unknown holds a value that is set but means nothing.
func StrategyOf(labels map[string]string) (strategy Strategy, unknown string, valid bool) {
	value, present := labels[LabelStrategy]
	if !present {
		return StrategyMigrate, "", true
	}
	strategy, valid = ParseStrategy(value)
	if !valid {
		unknown = value
	}
	return strategy, unknown, valid
}

// Stops reports whether the strategy powers the VM off instead of moving it.
func (s Strategy) Stops() bool { return s != StrategyMigrate }

// Restart says when Drydock starts a VM that it stopped by this strategy.
func (s Strategy) Restart() RestartPoint {
	switch s {
	case StrategyRestartAfterEnable:
		return RestartAfterEnable
	case StrategyRestartAfterDisable:
		return RestartAfterDisable
	default:
		return RestartNever
	}
}

// Restarts reports whether Drydock itself brings the VM back.
func (s Strategy) Restarts() bool { return s.Restart() != RestartNever }
