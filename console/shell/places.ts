/** Where one can go from everywhere. */
import { IconBuildingStore, IconPlug } from '@tabler/icons-react';

export const places = [
  { to: '/catalog', label: 'Catalog', icon: IconBuildingStore },
  { to: '/installations', label: 'Installations', icon: IconPlug },
] as const;
