package landfall

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Plan is what the apps of a namespace may use together, as an administrator says. A nil limit bounds nothing. It is no
// part of any version, so it does not go back with one.
type Plan struct {
	Apps       *int64 `json:"apps,omitempty" minimum:"0" doc:"apps that were not deleted"`
	Releases   *int64 `json:"releases,omitempty" minimum:"0" doc:"accessible releases of all apps"`
	Memory     *int64 `json:"memory,omitempty" minimum:"0" doc:"bytes: one process of each function of the live releases"`
	MilliCPU   *int64 `json:"cpu,omitempty" minimum:"0" doc:"thousandths of a processor: one process of each function of the live releases"`
	Executions *int64 `json:"executions,omitempty" minimum:"0" doc:"executions at the same time: the concurrency of each function of the live releases"`
	Bytes      *int64 `json:"bytes,omitempty" minimum:"0" doc:"bytes of stored files and archives, each stored once"`
}

// Usage is what the apps of a namespace use of a Plan.
type Usage struct {
	Apps       int64 `json:"apps"`
	Releases   int64 `json:"releases"`
	Memory     int64 `json:"memory"`
	MilliCPU   int64 `json:"cpu"`
	Executions int64 `json:"executions"`
	Bytes      int64 `json:"bytes"`
}

// Add adds what one process of a function uses, and how many it may have at once. What a function leaves open counts as
// the default of runners, and as one processor.
func (u *Usage) Add(r Resources) {
	r = r.Or(Resources{Memory: DefaultMemory, MilliCPU: wholeCPU, Concurrency: DefaultConcurrency})
	u.Memory += r.Memory
	u.MilliCPU += int64(r.MilliCPU)
	u.Executions += int64(r.Concurrency)
}

// wholeCPU is one processor in thousandths.
const wholeCPU = 1000

// PlanLine is one limit of a plan beside what is used.
type PlanLine struct {
	Name  string // as the command line's flag
	Limit *int64 // nil: none
	Used  int64
}

// Lines returns the limits in their order, with what is used.
func (p Plan) Lines(u Usage) []PlanLine {
	return []PlanLine{
		{"apps", p.Apps, u.Apps}, {"releases", p.Releases, u.Releases}, {"memory", p.Memory, u.Memory},
		{"cpu", p.MilliCPU, u.MilliCPU}, {"executions", p.Executions, u.Executions}, {"bytes", p.Bytes, u.Bytes},
	}
}

// Text writes an amount of the limit as the command line takes it.
func (l PlanLine) Text(amount int64) string {
	text := strconv.FormatInt(amount, 10)
	if l.Name == "cpu" {
		return text + "m"
	}
	if l.Name != "memory" && l.Name != "bytes" {
		return text
	}
	const step = 1024
	for _, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if amount == 0 || amount%step != 0 {
			break
		}
		amount /= step
		text = strconv.FormatInt(amount, 10) + unit
	}
	return text
}

// ErrOverPlan is the cause of the errors of what asks for more than a plan has.
var ErrOverPlan = errors.New("over the plan")

// Refusal returns a Conflict, with the figures and with ErrOverPlan as its cause, if something lets a namespace grow
// beyond its plan: for each limit of which more is asked than the plan has and than was used before. nil when it does
// not.
func (p Plan) Refusal(namespace, what string, before, asked Usage) error {
	var over []string
	used := p.Lines(before)
	for i, l := range p.Lines(asked) {
		if l.Limit != nil && l.Used > *l.Limit && l.Used > used[i].Used {
			over = append(over, fmt.Sprintf("%s %s of %s", l.Name, l.Text(l.Used), l.Text(*l.Limit)))
		}
	}
	if len(over) == 0 {
		return nil
	}
	return Wrapf("landfall.Plan", Conflict, ErrOverPlan, "%s asks for more than the plan of the namespace %s has: %s "+
		"(landfall plan show %[2]s)", what, namespace, strings.Join(over, ", "))
}
