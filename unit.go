package landfall

// UnitKind is the kind of a moving unit: one thing that changes as a whole.
type UnitKind string

// The kinds of units that a spec can declare.
const (
	ConfigUnit      UnitKind = "config"        // the tenant configuration
	EnvironmentUnit UnitKind = "environment"   //
	PackageUnit     UnitKind = "package"       //
	FunctionUnit    UnitKind = "function"      //
	HTTPTrigger     UnitKind = "http-trigger"  //
	TimeTrigger     UnitKind = "time-trigger"  //
	QueueTrigger    UnitKind = "queue-trigger" //
	StaticUnit      UnitKind = "static"        // one entry of "static:"; its name is its path
	AliasUnit       UnitKind = "alias"         // its name is FUNCTION:ALIAS
	FunctionTagUnit UnitKind = "function-tag"  //
)

// SecretUnit is the kind of a secret. A person sets it; it is in no spec.
const SecretUnit UnitKind = "secret"

// ConfigName is the name of the one unit that holds an app's tenant configuration.
const ConfigName = "config"

// UnitKinds lists the kinds in the order in which lists and trackers show them: functions and packages first.
func UnitKinds() []UnitKind {
	return []UnitKind{
		FunctionUnit, PackageUnit, EnvironmentUnit, AliasUnit, FunctionTagUnit, HTTPTrigger, TimeTrigger, QueueTrigger,
		ConfigUnit, StaticUnit, SecretUnit,
	}
}

// InNamespace reports whether names of the kind are unique in their namespace; the others are unique in their app.
func (k UnitKind) InNamespace() bool { return k == FunctionUnit || k == PackageUnit }

// UnitID names a unit within an app.
type UnitID struct {
	Kind UnitKind `json:"kind"`
	Name string   `json:"name"`
}

// String returns the unit as people read it: "function hello".
func (u UnitID) String() string { return string(u.Kind) + " " + u.Name }

// TriggerKinds lists the kinds of triggers.
func TriggerKinds() []UnitKind { return []UnitKind{HTTPTrigger, TimeTrigger, QueueTrigger} }

// IsTrigger reports whether the kind is one of the kinds of triggers.
func (k UnitKind) IsTrigger() bool { return k == HTTPTrigger || k == TimeTrigger || k == QueueTrigger }
