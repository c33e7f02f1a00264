// A choice made is a choice shown; addresses are without what was left empty, so that they can be passed on.
const form = document.getElementById("filter");
if (form) {
  form.addEventListener("change", () => form.requestSubmit());
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
  });
}
