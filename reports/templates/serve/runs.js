// Submit the filter as soon as a choice changes. Leave out empty fields, which keeps the address short enough to share.
const form = document.getElementById("filter");
if (form) {
  form.addEventListener("change", () => form.requestSubmit());
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
  });
}
