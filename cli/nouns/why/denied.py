"""`pk why denied`: reads the cluster's ACLs; `pk.cli.diagnosis.why_denied` determines which ACL
decides."""

from pk.cli.diagnosis.explain import Explanation
from pk.cli.diagnosis.why_denied import ask_denied
from pk.cli.nouns.why.rows import DeniedVerdict, ExplainedDenied
from pk.cli.nouns.why.why import answer, evidence_rows
from pk.cli.runtime.context import Context

_ALLOWED = "allowed"


async def why_denied(
    context: Context, principal: str, operation: str, resource: str, host: str | None
) -> int:
    """Run `pk why denied`. Returns 0 if the operation is allowed, else 1."""
    question, explanation = await ask_denied(context, principal, operation, resource, host)

    def describe(explained: Explanation) -> ExplainedDenied:
        return {
            "resource": explained.subject,
            "principal": question.principal,
            "operation": question.operation.name,
            "state": explained.state,
            "verdict": explained.verdict,
            "evidence": evidence_rows(explained),
            "next": list(explained.next),
        }

    answer(context, [explanation], describe, DeniedVerdict, healthy=(_ALLOWED,))
    return 0 if explanation.state == _ALLOWED else 1
