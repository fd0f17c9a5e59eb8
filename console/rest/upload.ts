/** Uploads a form with XMLHttpRequest, because `fetch` does not report upload progress. */
import { readProblem } from './client.ts';
import { UnreachableError } from './problem.ts';
import { CONSOLE_HEADERS, sendAsUser } from './user-fetch.ts';

/**
 * @param onProgress called with the fraction that was sent
 * @returns the body of the answer
 */
export async function uploadForm(
  address: string,
  form: FormData,
  onProgress: (part: number) => void,
): Promise<unknown> {
  const answer = await sendAsUser(() => sendForm(address, form, onProgress), new AbortController().signal);
  if (answer.status >= 200 && answer.status < 300) return JSON.parse(answer.text);
  throw await readProblem(new Response(answer.text, { status: answer.status }), true);
}

interface FormAnswer {
  readonly status: number;
  readonly text: string;
}

function sendForm(address: string, form: FormData, onProgress: (part: number) => void): Promise<FormAnswer> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', address);
    for (const [name, value] of Object.entries(CONSOLE_HEADERS)) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 0 : loaded / total);
    request.onerror = () => reject(new UnreachableError(true));
    request.onload = () => resolve({ status: request.status, text: request.responseText });
    // Lets the browser ask whether to leave the console, which would end the upload. The console's own question about typed text
    // (`isTextLost`) is no such event: signing out ends no upload.
    const askBeforeUnload = (event: Event) => {
      if (event.isTrusted) event.preventDefault();
    };
    // On any page: the upload goes on while its user opens another one.
    request.onloadend = () => removeEventListener('beforeunload', askBeforeUnload);
    addEventListener('beforeunload', askBeforeUnload);
    request.send(form);
  });
}
