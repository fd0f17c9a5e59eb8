/** How a package is refused: one problem that names every place. */
import { Problem, type ProblemLocation } from '../../sdk/contract/errors.ts';

/** Places named in one answer; an author fixes a few and publishes again. */
const FAULTS_MAX = 50;

/** Thrown by the parts that read and build a package; `locations` say file, line and column where they are known. */
export function invalidPackage(detail: string, locations: readonly ProblemLocation[] = []): Problem {
  return new Problem('invalid_package', detail, { errors: locations.slice(0, FAULTS_MAX) });
}

/** A refusal for one place: the detail is the place and what is wrong there. */
export function invalidAt(location: ProblemLocation): Problem {
  return invalidPackage(describe(location), [location]);
}

/** A refusal for several places: the detail is the first and how many more there are. */
export function invalidAll(locations: readonly ProblemLocation[]): Problem {
  const [first] = locations;
  if (!first) throw new Error('a refusal needs a reason');
  const more = locations.length > 1 ? ` (and ${locations.length - 1} more, see errors)` : '';
  return invalidPackage(`${describe(first)}${more}`, locations);
}

/** `index.ts:3:7: message`, as compilers say it. */
function describe({ path, line, column, field, message }: ProblemLocation): string {
  const place = [path, line, column].filter((part) => part !== undefined).join(':');
  return [place, field, message].filter((part) => part !== undefined && part !== '').join(': ');
}
