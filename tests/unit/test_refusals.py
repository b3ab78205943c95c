"""Who refused, and who can lift it: by the words that API servers use."""

import pytest

from esipp.cluster import ApiError
from esipp.refusals import hint_for


@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        (401, "Unauthorized", "has a token expired"),
        (500, "failed to allocate a nodePort: range is full", "--service-node-port-range"),
        (403, 'pods "backend" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2',
         "a ResourceQuota"),
        (403, 'pods "backend" is forbidden: failed quota: few: must specify limits.cpu for: echo', "a ResourceQuota"),
        (403, 'pods "backend" is forbidden: maximum memory usage per Container is 64Mi, but limit is 256Mi',
         "a LimitRange"),
        (403, 'pods "agent-a" is forbidden: violates PodSecurity "restricted:latest": host namespaces', "Pod Security"),
        (403, 'admission webhook "pods.example.com" denied the request: no', "the admission webhook pods.example.com"),
        (500, 'Internal error occurred: failed calling webhook "pods.example.com": failed to call webhook: Post ...',
         "the admission webhook pods.example.com"),
        (422, "pods \"backend\" is forbidden: ValidatingAdmissionPolicy 'no-pods' with binding 'x' denied request: no",
         "the admission policy no-pods"),
        (403, 'pods is forbidden: User "x" cannot create resource "pods" in API group "" in the namespace "y"',
         "the account needs the rights"),
        (403, 'pods "backend" is forbidden: unable to create new content in namespace x because it is being terminated',
         "somebody removes our namespace"),
        (409, "the object has been modified", "what it had made is removed"),
    ],
)  # fmt: skip
def test_whose_refusal_it_is(status: int, message: str, words: str) -> None:
    assert words in hint_for(ApiError(status, "", message, "POST /pods"))
