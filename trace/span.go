package trace

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"landfall.dev/landfall"
)

// Attribute is an attribute of a span.
type Attribute = attribute.KeyValue

// Run returns the attributes of the span of a run.
func Run(app string, run landfall.Run) []Attribute {
	return []Attribute{
		semconv.CICDPipelineName(app), semconv.CICDPipelineRunID(run.ID),
		semconv.VCSRefHeadName(run.Branch), semconv.VCSRefHeadRevision(string(run.Commit)),
	}
}

// Step returns the attribute of the span of a step.
func Step(step landfall.Step) Attribute { return semconv.CICDPipelineTaskName(string(step)) }

// Report returns the attributes of the span of a commit status.
func Report(report landfall.Report) []Attribute {
	return []Attribute{
		semconv.CICDPipelineName(report.AppName), semconv.CICDPipelineRunID(report.Run), Step(landfall.StepReport),
		semconv.VCSOwnerName(report.Repository.Owner), semconv.VCSRepositoryName(report.Repository.Name),
		semconv.VCSRefHeadRevision(string(report.Commit)), semconv.CICDPipelineRunStateKey.String(string(report.State)),
	}
}

// Comment returns the attributes of the span of a pull request's comment. The span begins a trace, because a comment
// may belong to several runs.
func Comment(comment landfall.Comment) []Attribute {
	return []Attribute{
		Step(landfall.StepReport), semconv.VCSOwnerName(comment.Repository.Owner),
		semconv.VCSRepositoryName(comment.Repository.Name), semconv.VCSChangeID(strconv.Itoa(comment.Number)),
	}
}

// Deployment returns the attributes of the span of a deployment. The span begins a trace, because a deployment may
// belong to several runs, or to none.
func Deployment(d landfall.Deployment) []Attribute {
	return []Attribute{
		Step(landfall.StepReport), semconv.VCSOwnerName(d.Report.Repository.Owner),
		semconv.VCSRepositoryName(d.Report.Repository.Name),
	}
}

// Check returns the attributes of the span of a check run. The span begins a trace, as that of a comment does.
func Check(c landfall.Check) []Attribute {
	return []Attribute{
		Step(landfall.StepReport), semconv.VCSOwnerName(c.Report.Repository.Owner),
		semconv.VCSRepositoryName(c.Report.Repository.Name), semconv.VCSRefHeadRevision(string(c.Commit)),
	}
}

// Function returns the attributes of the span of a function's call: its name, its version, the execution if it is known
// yet, and the kind of trigger; none when it is called by its name.
func Function(namespace, name string, version landfall.UID, execution string, by landfall.UnitKind) []Attribute {
	all := []Attribute{
		semconv.FaaSInvokedName(namespace + "/" + name), semconv.FaaSInvokedProviderKey.String("landfall"),
		semconv.FaaSVersion(string(version)),
		triggeredBy(by),
	}
	if execution != "" {
		all = append(all, semconv.FaaSInvocationID(execution))
	}
	return all
}

func triggeredBy(kind landfall.UnitKind) Attribute {
	switch kind {
	case landfall.HTTPTrigger:
		return semconv.FaaSTriggerHTTP
	case landfall.TimeTrigger:
		return semconv.FaaSTriggerTimer
	case landfall.QueueTrigger:
		return semconv.FaaSTriggerPubSub
	case landfall.ConfigUnit, landfall.EnvironmentUnit, landfall.PackageUnit, landfall.FunctionUnit, landfall.StaticUnit,
		landfall.SecretUnit, landfall.AliasUnit, landfall.FunctionTagUnit:
	}
	return semconv.FaaSTriggerOther
}

// Failed sets the kind of failure of the work. The text of an error is never sent.
func (s Span) Failed(kind string) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(semconv.ErrorTypeKey.String(landfall.Printable(kind)))
	s.span.SetStatus(codes.Error, "")
}

// answered sets the status of the answer; failed is the lowest status of a failure.
func (s Span) answered(status, failed int) {
	if s.span == nil || status == 0 {
		return
	}
	s.span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	if status >= failed {
		s.Failed(http.StatusText(status))
	}
}

// End ends the span, with the kind of the work's error.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.Failed(landfall.KindOf(err).String())
	}
	s.span.End()
}
