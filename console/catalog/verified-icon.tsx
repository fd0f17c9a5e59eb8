/** The sign of an author whose identity the operator has verified. */
import { IconRosetteDiscountCheckFilled } from '@tabler/icons-react';

export function VerifiedIcon({ size }: { readonly size: number }) {
  return <IconRosetteDiscountCheckFilled size={size} color="var(--busy)" aria-label="Verified author" role="img" />;
}
