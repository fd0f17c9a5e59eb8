/** Uploads a form with XMLHttpRequest, because `fetch` does not report upload progress. */
import { readToken, setToken } from '../sign-in/token.ts';
import { readProblem } from './client.ts';

/**
 * @param onProgress called with the fraction that was sent
 * @returns the body of the answer
 */
export function uploadForm(address: string, form: FormData, onProgress: (part: number) => void): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', address);
    request.setRequestHeader('authorization', `Bearer ${readToken() ?? ''}`);
    request.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 0 : loaded / total);
    request.onerror = () => reject(new TypeError('the service cannot be reached'));
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) return resolve(JSON.parse(request.responseText));
      if (request.status === 401) setToken(null);
      readProblem(new Response(request.responseText, { status: request.status })).then(reject, reject);
    };
    request.send(form);
  });
}
