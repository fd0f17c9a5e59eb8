/** Chooses the model of a request to a plugin's provider. */
import { Problem } from '../../sdk/contract/errors.ts';

/** Maximum number of models that an error names. */
const MODELS_NAMED = 20;

/** Returns the id of the requested model. Default: the first one. @throws Problem `invalid_arguments` */
export function chooseModel(
  provider: string,
  models: readonly { readonly id: string }[],
  wanted: string | undefined,
): string {
  const found = wanted === undefined ? models[0] : models.find(({ id }) => id === wanted);
  if (found) return found.id;
  const names = models.slice(0, MODELS_NAMED).map(({ id }) => id);
  throw new Problem('invalid_arguments', `${provider} has no model with this name; it has ${names.join(', ')}.`, {
    errors: [{ field: 'request.model', message: 'is not a model of this provider' }],
  });
}
