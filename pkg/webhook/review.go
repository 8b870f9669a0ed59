package webhook

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// maxReview bounds the body of a review: an old and a new object of the size that etcd
// takes by default, and the envelope. It is about what the API server accepts of its own
// clients.
const maxReview = 3<<20 + 256<<10

const reviewKind = "AdmissionReview"

// malformed is an answer to what is no review; errors of decoded reviews are answered
// inside the review.
type malformed struct {
	status  int
	message string
}

func (m *malformed) Error() string { return m.message }

// readReview reads the body of a request.
func readReview(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	contentType := r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(contentType); err != nil || media != "application/json" {
		return nil, &malformed{http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Type: %q is not application/json", contentType)}
	}
	if r.ContentLength > maxReview {
		return nil, tooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge()
	case err != nil:
		return nil, &malformed{http.StatusBadRequest, "the body could not be read: " + err.Error()}
	}
	return body, nil
}

func tooLarge() error {
	return &malformed{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", maxReview)}
}

// decodeReview returns the request of a review. Names of fields are read with their
// case, as the API server reads them.
func decodeReview(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review.TypeMeta); err != nil {
		return nil, &malformed{http.StatusBadRequest, "the body is not an AdmissionReview: " + err.Error()}
	}
	want := admissionv1.SchemeGroupVersion.String()
	if review.Kind != reviewKind || review.APIVersion != want {
		return nil, &malformed{http.StatusBadRequest, fmt.Sprintf("the body is %q of apiVersion %q, want %q of %q", review.Kind, review.APIVersion, reviewKind, want)}
	}
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, &malformed{http.StatusBadRequest, "the AdmissionReview cannot be read: " + err.Error()}
	}
	switch {
	case review.Request == nil:
		return nil, &malformed{http.StatusBadRequest, "the AdmissionReview has no request"}
	case review.Request.UID == "":
		return nil, &malformed{http.StatusBadRequest, "request.uid: is empty"}
	}
	return review.Request, nil
}

// verdict is what was decided about a request.
type verdict struct {
	// refusal is the sentence that refuses, "" for allowed; invalid says that a field of
	// the object is wrong, not that the moment is.
	refusal string
	invalid bool
	// warnings are shown to who sent the request.
	warnings []string
	patch    []operation
}

// errObject marks an object that cannot be read.
var errObject = errors.New("the object cannot be read")

// objects decodes the object and, of an update, the old one. Neither is there for an
// operation about which nothing is decided.
func objects[T any](request *admissionv1.AdmissionRequest) (old, now *T, err error) {
	if request.SubResource != "" {
		return nil, nil, nil
	}
	switch request.Operation {
	case admissionv1.Create:
	case admissionv1.Update:
		if old, err = object[T](request.OldObject.Raw, "request.oldObject"); err != nil {
			return nil, nil, err
		}
	default:
		return nil, nil, nil
	}
	now, err = object[T](request.Object.Raw, "request.object")
	return old, now, err
}

func object[T any](raw []byte, field string) (*T, error) {
	if len(raw) == 0 {
		return nil, fmt.Errorf("%w: %s is missing", errObject, field)
	}
	// Through a pointer, so that "null" is told from an object.
	var decoded *T
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errObject, field, err)
	}
	if decoded == nil {
		return nil, fmt.Errorf("%w: %s is null", errObject, field)
	}
	return decoded, nil
}

// answer turns a verdict into the response of its request.
func answer(request *admissionv1.AdmissionRequest, v verdict, err error) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true, Warnings: v.warnings}
	if err == nil && v.refusal == "" && len(v.patch) > 0 {
		kind := admissionv1.PatchTypeJSONPatch
		response.PatchType = &kind
		response.Patch, err = encodePatch(v.patch)
	}
	switch {
	case err != nil:
		response.Patch, response.PatchType = nil, nil
		refuse(response, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	case v.refusal != "" && v.invalid:
		refuse(response, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, v.refusal)
	case v.refusal != "":
		// Not 409: clients take a conflict for something to try again at once.
		refuse(response, http.StatusForbidden, metav1.StatusReasonForbidden, v.refusal)
	}
	return response
}

func refuse(response *admissionv1.AdmissionResponse, code int32, reason metav1.StatusReason, message string) {
	response.Allowed = false
	response.Result = &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
}

// encodeReview writes a response as the review that the API server expects.
func encodeReview(response *admissionv1.AdmissionResponse) ([]byte, error) {
	review := admissionv1.AdmissionReview{Response: response}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind(reviewKind))
	raw, err := json.Marshal(review)
	if err != nil {
		return nil, fmt.Errorf("AdmissionReview: %w", err)
	}
	return raw, nil
}
